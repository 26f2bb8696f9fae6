"""Records of runs: what they are, how they must look, and where they lie.

config.py     what a run is; fields.py: what a field of it says of itself
run.py        a run as recorded
expected.py   what the records must look like
directory.py  the files of a run; files/: how they are kept
packed.py     runs in one file
packing.py    runs of several places as one, and back
labels.py     labels of a lottery's stages
"""
