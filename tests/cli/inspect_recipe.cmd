# A recipe comes back in canonical form, whatever the file is called.
printf "seed = 3\n[[rule]]\nmatch = \"*.fc2.weight\"\ngeometry = { rank = 8, kind = \"deflate\" }\n" > anything
"$GIFT" inspect anything
