/* Everything native that is not generated, as one unit: `make native` compiles it to support.ll, which the package reads. */
#include "pool.c"
#include "memory.c"
#include "call.c"
#include "libraries.c"
#include "half.c"
