"""What two datasets share: copies of images and related classes; datasets without them; warnings about leaks."""
