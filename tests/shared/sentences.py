"""Varied English texts: some to calibrate a sentence encoder with, others to judge it by."""

CALIBRATION = """
The train to the coast leaves at half past six from platform nine.
She peeled the potatoes while the radio murmured in the corner.
Interest rates were raised by a quarter of a point on Thursday.
How do I reset the password of my account?
A cat.
The committee postponed its decision until the budget had been audited.
Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.
He scored twice in the last ten minutes and the stadium went silent.
Please find the signed contract attached; the originals follow by post.
def area(r): return 3.14159 * r ** 2
Two tablespoons of olive oil, a clove of garlic, and a pinch of salt.
The old lighthouse has been empty since the keeper retired in 1974.
I can't believe how quickly the summer went by!
Mount Kilimanjaro rises 5,895 metres above sea level.
Their second album sold more than a million copies in its first week.
The patient was given 40 mg of the drug twice a day for three weeks.
Is it going to rain tomorrow?
Rust is a language that guarantees memory safety without a garbage collector.
The jury found him not guilty on all counts.
My grandmother taught me how to knit when I was seven.
Quantum computers use superposition and entanglement.
The flight from Lisbon to Toronto was delayed by four hours because of fog.
Great phone, terrible battery. Would not buy again.
The novel follows three sisters through the years after the war.
Glaciers in the Alps have lost half of their volume since 1900.
Turn left at the church, then take the second street on the right.
The court ruled that the patent was invalid because of prior art.
Dogs can hear frequencies that are far beyond the range of human hearing.
Total: $1,284.50 (incl. 19 % VAT), due within 30 days.
To be, or not to be, that is the question.
The enzyme unfolds at temperatures above sixty degrees.
Our office is closed on public holidays.
Refugees crossed the border on foot, carrying what they could.
The derivative of the sine is the cosine.
He whistled an old tune as he swept the floor of the workshop.
Which of these two laptops is better for editing video?
The museum shows Dutch paintings of the seventeenth century.
Farmers fear that the drought will ruin this year's harvest.
Error: connection refused (host unreachable, retrying in 5 s).
The children built a castle of sand and watched the tide take it.
A balanced diet contains vegetables, fruit, whole grains and protein.
The satellite lost contact with the ground station shortly after launch.
Unemployment fell to its lowest level in more than a decade.
You shouldn't have said that to her.
Bees tell each other the way to flowers by dancing.
The bridge was closed to traffic after engineers found cracks in two cables.
He speaks Portuguese, Dutch and a little Japanese.
The recipe asks for butter at room temperature, but melted works too.
In the third quarter revenue grew by eleven percent while costs stayed flat.
What a lovely surprise to see you all here!
The electron was discovered by J. J. Thomson in 1897.
Fans queued all night for tickets to the final.
The software update fixes a bug that drained the battery.
Under the agreement both countries will halve their tariffs within five years.
The violinist tuned her instrument and nodded to the conductor.
Wear gloves and goggles when you handle concentrated acid.
Nobody knew who had left the letter on the kitchen table.
The parliament approved the bill by 312 votes to 240 after a debate that lasted until dawn, \
during which members of both parties accused each other of ignoring the advice of the experts \
whom they had themselves appointed, and several amendments were withdrawn at the last minute.
The earth orbits the sun once every 365.25 days.
Cheap flights, cheap hotels, no hidden fees!
The volcano had been dormant for three hundred years when steam began to rise from its crater.
""".strip().split("\n")

CHECK = """
The bus was so full that we had to wait for the next one.
Octopuses have three hearts and blue blood.
Shares of the carmaker fell sharply after the recall was announced.
Where can I download the manual of this printer?
Snow.
The mayor promised to plant ten thousand trees before the end of the decade.
Mitochondria provide most of the energy that a cell needs.
The goalkeeper saved two penalties and was carried off the pitch by his team.
Thank you for your application; we will be in touch next week.
SELECT name, price FROM products WHERE price < 20 ORDER BY price;
Whisk the eggs with the sugar until the mixture is pale and fluffy.
The castle on the hill was rebuilt in the nineteenth century by a wealthy brewer.
I have never been so tired in my life.
Lake Baikal holds about a fifth of the world's unfrozen fresh water.
Her latest film opens in cinemas on Friday.
Side effects include headache, nausea and, in rare cases, a rash.
Did you remember to lock the back door?
A hash table finds an entry in constant time on average.
The tenant has to give three months' notice in writing.
My brother repairs bicycles in a garage behind the station.
Black holes are regions of space from which not even light escapes.
The ferry does not run when the wind is stronger than fifty knots.
Five stars. Arrived a day early and works like a charm.
The poem describes a walk through the city in winter.
Coral reefs are dying as the oceans grow warmer and more acidic.
The pharmacy is opposite the town hall, next to the bakery.
The company was fined two million euros for price fixing.
Wolves hunt in packs and defend their territory against strangers.
Invoice no. 2041: 12 x filter cartridge, 8.99 each, shipping free.
All happy families are alike; each unhappy family is unhappy in its own way.
The reaction is exothermic and gives off hydrogen.
Dinner is served from seven until half past nine.
Thousands marched through the capital to demand new elections.
Every even number greater than two seems to be the sum of two primes.
She rubbed her eyes and looked at the clock again.
Can you recommend a good book about the Roman Empire?
The exhibition brings together photographs of everyday life in Lagos.
Heavy rain has flooded the fields along the river for the second time this year.
Warning: disk almost full (97 % used on /var).
The boys raced their paper boats down the gutter.
Walking half an hour a day lowers the risk of heart disease.
The probe sent its first pictures of the comet back to earth last night.
Inflation slowed for the fourth month in a row.
I wish you had told me earlier.
Ants can carry many times their own weight.
The tunnel will shorten the journey between the two cities by forty minutes.
They moved from Seoul to Stockholm when she was twelve.
Let the dough rest for an hour under a damp cloth.
Net income per share came to 1.42 dollars, slightly more than analysts had expected.
Happy birthday, and all the best for the year ahead!
Penicillin was discovered by chance in a London hospital.
The concert was cancelled because the singer had lost her voice.
The new version is faster, but it crashes when I open large files.
The treaty obliges its members to reduce emissions of methane by a third.
The pianist played the encore with her eyes closed.
Keep this product out of the reach of children.
Somewhere in the attic a floorboard creaked.
When the inspectors finally arrived at the plant, which had been shut since the accident in \
spring, they found that most of the records had been stored in a damp cellar, that nobody could \
say who was responsible for the maintenance of the valves, and that the alarm had been switched \
off for years.
Light takes about eight minutes from the sun to the earth.
Win a free holiday now, just click the link below!
The glacier moves only a few centimetres a day, yet it carries boulders as large as houses.
""".strip().split("\n")
