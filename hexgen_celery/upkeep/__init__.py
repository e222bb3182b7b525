"""What control workers do to requests that wait while the cluster and the estimates change."""
