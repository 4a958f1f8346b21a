"""What the hardware is: chips as data, each number with its unit and its source."""

from socs.catalog import all_socs, load, names
from socs.errors import AtlasError, UnknownCost
from socs.spec import Soc

__all__ = ["AtlasError", "Soc", "UnknownCost", "all_socs", "load", "names"]
