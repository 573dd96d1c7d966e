"""How much each task gets: sized online from what earlier tasks used."""
