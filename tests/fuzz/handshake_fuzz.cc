// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := how:u8 rest
//   how: bit 0: the role; bit 1: there is a secret; bit 2: two honest sides talk, and bytes are changed on the way,
//        rest := (greeting:u8 at:u16 by:u8)[...]; else `rest` is what one side hears, in pieces of how >> 3 bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/pipe/handshake.h"

namespace fusewire::pipe {
namespace {

Options OptionsOf(const char* name, bool secret) {
  Options options;
  options.cluster = "prod";
  options.name = name;
  options.incarnation = 7;
  options.receive_budget_bytes = 1;
  if (secret) options.secret = "open sesame";
  return options;
}

struct Side {
  Side(Role role, bool secret)
      : options(OptionsOf(role == Role::kDialer ? "worker:3" : "ps:0", secret)),
        handshake(role, options, 1, options.window_bytes) {
    out = handshake.Begin();
  }

  void Hear(ConstBytes bytes, size_t most = SIZE_MAX) {
    while (!bytes.empty() && status.ok() && !handshake.done()) {
      ConstBytes in = bytes.Sub(0, std::min(most, bytes.size));
      size_t before = in.size;
      status = handshake.Feed(&in, &out);
      bytes = bytes.From(before - in.size);
      FUSEWIRE_CHECK(status.ok() || !handshake.done());
      FUSEWIRE_CHECK(in.empty() || handshake.done() || !status.ok());
    }
    left = bytes.size;
    FUSEWIRE_CHECK(out.size() <= 2 * wire::kGreetingBytesMax);
    CheckWords(handshake.done() || !status.ok() ? status : handshake.CutOff(Status::Timeout("no greeting")));
  }

  // A log entry is one line of bounded length, whatever the peer sent.
  static void CheckWords(const Status& words) {
    if (words.ok()) return;
    FUSEWIRE_CHECK(!words.phase().empty());
    FUSEWIRE_CHECK(words.cause().size() < 2000);
    for (char c : words.cause()) FUSEWIRE_CHECK(static_cast<uint8_t>(c) >= 0x20);
  }

  std::string Say() {
    std::string said;
    said.swap(out);
    return said;
  }

  const Options options;
  Handshake handshake;
  std::string out;
  Status status;
  size_t left = 0;
};

void HearStranger(uint8_t how, ConstBytes words) {
  Role role = (how & 1) != 0 ? Role::kAcceptor : Role::kDialer;
  bool secret = (how & 2) != 0;
  Side whole(role, secret), cut(role, secret);
  whole.Hear(words);
  cut.Hear(words, 1 + (how >> 3U));
  // A stranger does not know the secret.
  FUSEWIRE_CHECK(!secret || !whole.handshake.done());
  FUSEWIRE_CHECK(whole.handshake.done() == cut.handshake.done());
  FUSEWIRE_CHECK(whole.status.ToString() == cut.status.ToString());
  if (!whole.handshake.done()) return;
  FUSEWIRE_CHECK(whole.left == cut.left);
  FUSEWIRE_CHECK(whole.handshake.peer().cluster == "prod");
  FUSEWIRE_CHECK(wire::CheckHello(whole.handshake.peer()).ok());
}

void Mutate(std::string* said, uint8_t greeting, ConstBytes changes) {
  for (; changes.size >= 4; changes = changes.From(4)) {
    if (changes.data[0] % 4 != greeting || said->empty()) continue;
    size_t at = (changes.data[1] | static_cast<size_t>(changes.data[2]) << 8U) % said->size();
    (*said)[at] = static_cast<char>((*said)[at] ^ changes.data[3]);
  }
}

void MutateBetween(uint8_t how, ConstBytes changes) {
  bool secret = (how & 2) != 0;
  Side dialer(Role::kDialer, secret), acceptor(Role::kAcceptor, secret);
  bool changed = false;
  for (uint8_t greeting = 0; greeting < 4; ++greeting) {
    Side& from = greeting % 2 == 1 ? acceptor : dialer;
    Side& to = greeting % 2 == 1 ? dialer : acceptor;
    std::string said = from.Say(), heard = said;
    Mutate(&heard, greeting, changes);
    changed |= heard != said;
    to.Hear(heard);
  }
  FUSEWIRE_CHECK(dialer.handshake.done() || changed);
  // The dialer's end: it hears last.
  FUSEWIRE_CHECK(!(dialer.handshake.done() && changed && secret));
}

}  // namespace
}  // namespace fusewire::pipe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  fusewire::ConstBytes rest(data + 1, size - 1);
  if ((data[0] & 4) != 0) {
    fusewire::pipe::MutateBetween(data[0], rest);
  } else {
    fusewire::pipe::HearStranger(data[0], rest);
  }
  return 0;
}
