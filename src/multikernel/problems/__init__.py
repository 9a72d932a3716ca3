"""Problems: what is minimised, and the certificate that proves a solution good; one file a method."""
