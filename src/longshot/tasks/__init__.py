"""Tasks, testbeds and the samplers that draw them: shapes × classes × instances."""
