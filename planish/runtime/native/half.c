/* Conversions of 16-bit floats by integers: what code calls on processors that have no instruction for them. */

typedef unsigned bits;

static bits bits_of(float x) { bits b; __builtin_memcpy(&b, &x, sizeof b); return b; }
static float float_of(bits b) { float x; __builtin_memcpy(&x, &b, sizeof x); return x; }

float __extendhfsf2(__fp16 x) {
    unsigned short raw;
    __builtin_memcpy(&raw, &x, sizeof raw);
    bits magnitude = raw & 0x7FFF, sign = (bits)(raw & 0x8000) << 16, placed = magnitude << 13;
    /* the exponent read as that of a float32, which a power of two puts right; subnormals too */
    bits number = bits_of(float_of(placed) * 0x1p112f);
    return float_of((magnitude >= 0x7C00 ? placed | 0x7F800000 : number) | sign);
}

__fp16 __truncsfhf2(float x) {
    bits all = bits_of(x), magnitude = all & 0x7FFFFFFF, sign = all >> 16 & 0x8000;
    bits normal = ((magnitude + 0xFFF + (magnitude >> 13 & 1)) >> 13) - 0x1C000;
    /* a subnormal is a whole number of the least one: adding a large number rounds it there */
    bits small = bits_of(float_of(magnitude) + 0.5f) - 0x3F000000;
    bits number = magnitude < 0x38800000 ? small : normal;
    if (number > 0x7C00) number = 0x7C00;
    if (magnitude > 0x7F800000) number = 0x7E00;
    unsigned short raw = (unsigned short)(number | sign);
    __fp16 result;
    __builtin_memcpy(&result, &raw, sizeof raw);
    return result;
}
