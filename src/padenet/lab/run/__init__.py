"""One run, as a function that can be repeated and resumed.

run.py        train: a record and a directory in, the result out; here a run is resumed
execution.py  where and how it is computed
learning/     what an epoch does
device.py     the device, and torch's switches
ranks.py      the processes that share a run
machine.py    machine, versions and commit
progress.py   a run as it goes, on the terminal
user_code.py  modules of the user
"""
