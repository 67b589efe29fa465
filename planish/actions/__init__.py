"""The steps of a schedule, one kind in each file: what it means, when it is legal, how it is applied, how a random one is drawn.

    split(i, 6); lanes(j, 16); stage(arg2, at=k.outer); thread(i.outer)

An action is a record with named fields (`base.py`); it names axes as the kernel does (`planish.uop.ops.Axis.name`), and an axis
keeps its name whatever is done to others. Stage 7 applies actions, `optimize/` chooses them, `text.py` prints and reads them.
A new kind is a new file here: `text.kinds` finds it.

| action | takes | effect |
|---|---|---|
| `upcast` | LOOP, GLOBAL | part of an output axis is kept in registers or lanes |
| `lanes` | LOOP, GLOBAL | the same, and of all axes in registers this one is the fastest |
| `unroll` | REDUCE | part of a reduce axis is laid out in lanes, combined in every iteration |
| `accumulators` | REDUCE | parts of a reduce axis have accumulators of their own, combined after the loop |
| `prefix` | LOOP, GLOBAL | part of an axis that a SCAN runs along is laid out in lanes |
| `relay` | LOOP, GLOBAL | part of an axis that a SCAN runs along is shared by neighbouring threads |
| `local` | LOOP, GLOBAL | the inner part is the threads of a block |
| `group` | REDUCE | a part is shared by the threads of a block, finished through LOCAL memory |
| `thread` | LOOP, GLOBAL | the outer part is given to cores (`companions.py`: of several loops, a piece of each) |
| `split` | LOOP, REDUCE | two loops instead of one |
| `swap` | two of one kind | they change places in the nest |
| `join` | two of one kind | one loop instead of both |
| `peel` | LOOP | two loops, one after the other, each with inner loops of its own |
| `pad_to` | any loop | runs on to a multiple, doing nothing there |
| `spare` | | one row becomes the first of several, of which the others are nothing |
| `overrun` | any loop | the same, reading the last element again there, storing and counting nothing |
| `shift_inwards` | LOOP | two loops, the inner one of which starts earlier where it would run over the end |
| `claim` | LOOP | blocks that each go through all of it, and store to rows of their own among those that data chooses |
| `align` | LOOP | starts where what it writes starts a vector, doing nothing before its beginning |
| `stage` | a loop, or none | a tile of a parameter is copied to LOCAL memory |
| `block` | REDUCE | the outputs are visited once per block of the axis, and hold the sums in between |
| `hold` | REDUCE | the same for sums over kept rows, which LOCAL memory holds in between |
| `limit` | REDUCE | a softmax over masked rows ends where the mask hides the rest of them |
| `tensor_core` | | a tensor core computes |
| `online` | | a softmax between two products of matrices, in one walk over the keys, by tensor cores |
| `chain` | | a product whose left operand is made of products, in one walk, by tensor cores |
| `no_locals` | | no threads of a block after it |
"""
