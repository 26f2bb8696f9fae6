"""How the files of a run are kept.

disk.py         written whole or not at all; errors that say what to do
json.py         JSON records
checksums.py    which carry checksums
checkpoints.py  tensors
lock.py         one process at a time
"""
