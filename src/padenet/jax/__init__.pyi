from padenet.jax.functional import randomized as randomized
from padenet.jax.functional import rational as rational
