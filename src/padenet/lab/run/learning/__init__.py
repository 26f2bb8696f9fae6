"""What an epoch of training does, on one device.

learner.py    net, optimiser and data together
model.py      the net of a run, with its first weights
optimizer.py  the optimisers: groups, rates, what they remember
batches.py    batches of a data set on a device
graphs.py     a training step as a CUDA graph
"""
