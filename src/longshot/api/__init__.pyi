"""What other rooms may use of this one, a line each."""

from .doctor import doctor as doctor  # What is installed, which extras work, device, cache and sandbox
from .estimates import Estimate as Estimate  # The steps of a piece of work, each with its `seconds` and `bytes` …
from .estimates import estimate as estimate  # What a verb with the same parameters would take in time and disk
from .face import public as public  # `function` as `longshot.name`
from .inspection import inspect as inspect  # Describe a testbed
from .methods import check_method as check_method  # Run the common test on a method
from .reports import report as report  # Write one self-contained page, or the table alone, from the results of one …
from .splits import plot_splits as plot_splits  # Draw the classes in the plane of their first two principal …
from .taxonomies import class_hierarchy as class_hierarchy  # As :func:`open_taxonomy`, with the classes
from .taxonomies import measure_distances as measure_distances  # Distances between all classes of a dataset or a …
from .taxonomies import open_taxonomy as open_taxonomy  # The hierarchy of a dataset's classes, or of a taxonomy file
from .overlap import find_overlap as find_overlap  # what two datasets share, with a page that shows the pairs
from .testbeds import sample as sample  # draw tasks; filtered ones are judged by methods
from .training import train as train  # make a backbone, with its learning curves
from .training import tune as tune  # search for settings, with learning curves
