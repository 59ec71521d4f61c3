"""What other rooms may use of this one, a line each."""

from .guard import App as App
from .guard import Guard as Guard  # Refuses what does not come from a page of this server or its reader
from .running import QUIET as QUIET  # what uvicorn is told by every server
from .running import RunningServer as RunningServer  # A server that answers in a thread of its own
from .running import in_url as in_url  # A host as addresses have it
from .running import is_loopback as is_loopback  # Whether only this machine can reach an address
from .running import listen as listen  # A listening socket on the port, or on the next one that is free
from .running import own_hosts as own_hosts  # `name:port` under which it answers
from .serving import serve as serve  # Show datasets, testbeds, runs, trainings and studies in the browser, live
from .serving import show as show  # The page of a testbed, of one of its tasks, or of results, in an explorer that …
from .site import TEMPLATES as TEMPLATES
from .site import ago as ago  # How long ago, in words
from .site import human_bytes as human_bytes  # A size in words
from .site import without_unseen as without_unseen  # HTML without control characters and marks that turn the …
