"""What other rooms may use of this one, a line each."""

from .installation import doctor as doctor  # What is installed, which extras work, device, cache and sandbox
from .verbs import estimate as estimate  # What a verb with the same parameters would take in time and disk
from .verbs import public as public  # `function` as `longshot.name`
from .verbs import inspect as inspect  # Describe a testbed
from .selftest import check_method as check_method  # Run the common test on a method
from .verbs import report as report  # Write one self-contained page, or the table alone, from the results of one …
from .verbs import plot_splits as plot_splits  # Draw the classes in the plane of their first two principal …
from .tuning import tune as tune  # Search for settings
