// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC (RFC 2104). Used for a few hundred bytes per connection: short, not fast.
#include <algorithm>
#include <bit>
#include <cstring>

#include "fusewire/wire/hello.h"

namespace fusewire::wire {
namespace {

constexpr size_t kBlockBytes = 64;
using Digest = std::array<uint8_t, 32>;

constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// SHA-256 is big-endian, unlike everything else on our wire.
uint32_t LoadBig32(const uint8_t* from) {
  return uint32_t{from[0]} << 24 | uint32_t{from[1]} << 16 | uint32_t{from[2]} << 8 | from[3];
}

void StoreBig32(uint8_t* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

class Hasher {
 public:
  void Add(ConstBytes bytes) {
    total_bytes_ += bytes.size;
    while (bytes.size > 0) {
      size_t some = std::min(bytes.size, kBlockBytes - used_);
      std::memcpy(block_ + used_, bytes.data, some);
      used_ += some;
      bytes = bytes.From(some);
      if (used_ == kBlockBytes) MixBlock();
    }
  }

  // Once, as the last word: a one bit, zeros, and the length in bits fill up the last block.
  Digest Finish() {
    const uint64_t total_bits = total_bytes_ * 8;
    block_[used_++] = 0x80;
    if (used_ > kBlockBytes - 8) {
      std::memset(block_ + used_, 0, kBlockBytes - used_);
      MixBlock();
    }
    std::memset(block_ + used_, 0, kBlockBytes - 8 - used_);
    StoreBig32(block_ + 56, static_cast<uint32_t>(total_bits >> 32));
    StoreBig32(block_ + 60, static_cast<uint32_t>(total_bits));
    MixBlock();
    Digest digest;
    for (size_t i = 0; i < 8; ++i) StoreBig32(digest.data() + 4 * i, state_[i]);
    return digest;
  }

 private:
  void MixBlock() {
    uint32_t w[64];
    for (size_t i = 0; i < 16; ++i) w[i] = LoadBig32(block_ + 4 * i);
    for (size_t i = 16; i < 64; ++i) {
      uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
      uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (size_t i = 0; i < 64; ++i) {
      uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
      uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t mixed[8] = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
    used_ = 0;
  }

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t block_[kBlockBytes];
  size_t used_ = 0;
  uint64_t total_bytes_ = 0;
};

class HmacHasher {
 public:
  explicit HmacHasher(ConstBytes key) {
    uint8_t padded[kBlockBytes] = {};
    if (key.size > kBlockBytes) {
      Digest digest = Sha256(key);
      std::memcpy(padded, digest.data(), digest.size());
    } else if (key.size > 0) {
      std::memcpy(padded, key.data, key.size);
    }
    uint8_t inner[kBlockBytes];
    uint8_t outer[kBlockBytes];
    for (size_t i = 0; i < kBlockBytes; ++i) {
      inner[i] = padded[i] ^ 0x36;
      outer[i] = padded[i] ^ 0x5c;
    }
    inner_.Add(ConstBytes(inner, kBlockBytes));
    outer_.Add(ConstBytes(outer, kBlockBytes));
  }
  void Add(ConstBytes bytes) { inner_.Add(bytes); }
  Digest Finish() {
    Digest digest = inner_.Finish();
    outer_.Add(ConstBytes(digest.data(), digest.size()));
    return outer_.Finish();
  }

 private:
  Hasher inner_;
  Hasher outer_;
};

}  // namespace

Digest Sha256(ConstBytes bytes) {
  Hasher hasher;
  hasher.Add(bytes);
  return hasher.Finish();
}

Digest HmacSha256(ConstBytes key, ConstBytes message) {
  HmacHasher hasher(key);
  hasher.Add(message);
  return hasher.Finish();
}

Proof MakeProof(const std::string& secret, const char* label, ConstBytes greetings, ConstBytes binding) {
  HmacHasher hasher(secret);
  hasher.Add(ConstBytes(label, std::strlen(label) + 1));  // with its 0: no label is the beginning of another text
  hasher.Add(greetings);
  hasher.Add(binding);
  return hasher.Finish();
}

bool SameProof(const Proof& left, const Proof& right) {
  unsigned difference = 0;
  for (size_t i = 0; i < left.size(); ++i) difference |= static_cast<unsigned>(left[i] ^ right[i]);
  return difference == 0;
}

}  // namespace fusewire::wire
