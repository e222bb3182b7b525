"""Workflow definitions: nodes, edges and estimates, and the three workflows that use them."""
