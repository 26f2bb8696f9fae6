"""Which runs: a protocol fills in a record, a recipe is a list of such records.

protocols.py  how a net is trained on a data set
tables.py     the runs behind the paper's tables, and the other recipes
frontier.py   a map of where units train
finding.py    the runs of a recipe or of a user's file, and which of them
"""

from padenet.lab.sweep.recipes.protocols import PROTOCOLS, find_protocol, paper
from padenet.lab.sweep.recipes.tables import RECIPES

__all__ = ["PROTOCOLS", "RECIPES", "find_protocol", "paper"]
