"""Networks, the features that they give, the engines that run them, and methods that learn from them."""
