"""Published question sets, published predictions, and how right answers are."""
