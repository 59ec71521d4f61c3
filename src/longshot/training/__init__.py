"""Making backbones: supervised and episodic training, resumable, one folder per trained network."""
