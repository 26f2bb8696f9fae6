"""The unit in PyTorch: formula, kernels, modules, and what models with units need."""
