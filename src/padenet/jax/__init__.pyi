from padenet.jax.functional import randomized as randomized
from padenet.jax.functional import rational as rational
from padenet.jax.optim import decay_mask as decay_mask
from padenet.jax.optim import stabilize as stabilize
