"""One module per kind of page; each function gets the site and the request's parameters and returns a page."""
