"""Laws of scale: shapes, the sample behind a series, posterior over laws, fitted law."""
