"""Reports that anybody can run again: what is compared, how it is run, what came out."""
