"""The programs of a bundle. They run without Longshot: what they share with it is packed beside them as ``inside``."""
