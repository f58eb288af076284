"""What trainings start from: data sets made ready, and weights converted or trained beforehand."""
