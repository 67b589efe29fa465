/* SHA-256 (FIPS 180-4): whether a file is what was written. */

static const unsigned sha_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static unsigned turned(unsigned x, int by) { return x >> by | x << (32 - by); }

COLD static void sha_block(unsigned *state, const unsigned char *block) {
    unsigned w[64], v[8];
    for (int i = 0; i < 16; i++) {
        unsigned raw;
        __builtin_memcpy(&raw, block + 4 * i, 4);
        w[i] = __builtin_bswap32(raw);
    }
    for (int i = 16; i < 64; i++) {
        unsigned a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] + (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    __builtin_memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        unsigned e = v[4], a = v[0];
        unsigned first = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + sha_constants[i] + w[i];
        unsigned second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (int k = 7; k; k--) v[k] = v[k - 1];
        v[4] += first;
        v[0] = first + second;
    }
    for (int k = 0; k < 8; k++) state[k] += v[k];
}

/* Whether the digest of some bytes is that one. */
COLD static int has_digest(const unsigned char *data, size bytes, const unsigned char *digest) {
    unsigned state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[128];
    size whole = bytes / 64, rest = bytes % 64, padded = rest < 56 ? 64 : 128;
    for (size i = 0; i < whole; i++) sha_block(state, data + 64 * i);
    __builtin_memset(last, 0, sizeof last);
    __builtin_memcpy(last, data + 64 * whole, rest);
    last[rest] = 0x80;
    for (int k = 0; k < 8; k++) last[padded - 1 - k] = (unsigned char)(bytes * 8 >> 8 * k);
    for (size i = 0; i < padded / 64; i++) sha_block(state, last + 64 * i);
    int equal = 1;
    for (int k = 0; k < 32; k++) equal &= (unsigned char)(state[k / 4] >> (24 - 8 * (k % 4))) == digest[k];
    return equal;
}
