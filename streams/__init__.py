"""Windows, signals and the controller of a partition (pure), and the Faust shell that feeds them."""
