"""What other rooms may use of this one, a line each."""

from .web_server import App as App
from .web_server import Guard as Guard  # Refuses what does not come from a page of this server or its reader
from .web_server import QUIET as QUIET  # what uvicorn is told by every server
from .web_server import RunningServer as RunningServer  # A server that answers in a thread of its own
from .web_server import in_url as in_url  # A host as addresses have it
from .web_server import is_loopback as is_loopback  # Whether only this machine can reach an address
from .web_server import listen as listen  # A listening socket on the port, or on the next one that is free
from .web_server import own_hosts as own_hosts  # `name:port` under which it answers
from .serving import serve as serve  # Show datasets, testbeds, runs, trainings and studies in the browser, live
from .serving import show as show  # The page of a testbed, of one of its tasks, or of results, in an explorer that …
from .site import TEMPLATES as TEMPLATES
from .site import ago as ago  # How long ago, in words
from .site import without_unseen as without_unseen  # HTML without control characters and marks that turn the …
