// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/server/network.h"

#include <string>

namespace fusewire::tf {
namespace {

// "FUSEWIRE_BIND is "eth9": ..."
Status Wrong(const char* variable, const std::string& value, const std::string& why, const std::string& next) {
  return Status::Invalid(std::string(variable) + " is \"" + value + "\": " + why).Next(next);
}

std::string HostOf(const std::string& address) {
  Result<transport::Address> parsed = transport::Address::Parse(address);
  return parsed.ok() ? parsed.value().host : address;
}

bool ReadPort(const std::string& word, uint16_t* port) {
  if (word.empty() || word.size() > 5 || word.find_first_not_of("0123456789") != std::string::npos) return false;
  const int number = std::stoi(word);
  *port = static_cast<uint16_t>(number);
  return number >= 1 && number <= 65535;
}

}  // namespace

bool ParsePorts(const std::string& text, pipe::PortRange* ports) {
  const size_t middle = text.find('-');
  pipe::PortRange read;
  if (!ReadPort(text.substr(0, middle), &read.min)) return false;
  if (middle == std::string::npos) {
    read.max = read.min;
  } else if (!ReadPort(text.substr(middle + 1), &read.max)) {
    return false;
  }
  if (read.min > read.max) return false;
  *ports = read;
  return true;
}

Status ParseAdvertise(const std::string& text, transport::Address* advertise) {
  const auto wrong = [&text](const std::string& why) {
    return Wrong("FUSEWIRE_ADVERTISE", text, why,
                 "set it to the host, or host:port, at which the other tasks reach this one");
  };
  // An IPv6 address without a port needs no brackets.
  const bool has_brackets = !text.empty() && text.front() == '[';
  const bool is_bare_ipv6 = !has_brackets && text.find(':') != text.rfind(':');
  const bool ends_in_bracket = has_brackets && text.back() == ']';
  const bool has_port = !is_bare_ipv6 && !ends_in_bracket && text.find(':') != std::string::npos;
  const std::string whole = has_port ? text : (is_bare_ipv6 ? "[" + text + "]" : text) + ":0";
  Result<transport::Address> parsed = transport::Address::Parse(whole);
  if (!parsed.ok()) return wrong("it is no address");
  const transport::Address& address = parsed.value();
  if (address.host.empty()) return wrong("it names no host");
  if (has_port && address.port == 0) return wrong("port 0 is not a port");
  if (address.host == "*" || address.host == "0.0.0.0" || address.host == "::") return wrong("it names no one machine");
  if (transport::SaysLinkLocal(address.host)) {
    return wrong("a link-local address is another machine's on each link");
  }
  *advertise = address;
  return Status::Ok();
}

Result<NetworkSettings> ReadNetwork(const NetworkWords& words) {
  NetworkSettings settings;
  settings.bind = words.bind;
  if (!words.ports.empty() && !ParsePorts(words.ports, &settings.ports)) {
    return Wrong("FUSEWIRE_PORTS", words.ports, "it is no range of ports",
                 "set it to a range, 40000-40100, or to one port, from 1 to 65535; or unset it for any free port");
  }
  if (!words.advertise.empty()) FUSEWIRE_TRY(ParseAdvertise(words.advertise, &settings.advertise));
  return settings;
}

Result<transport::ListeningPlace> WhereDataPortsAre(const std::string& bind, const std::string& own,
                                                    const std::map<std::string, std::string>& tasks) {
  if (!bind.empty()) {
    Result<std::string> said = transport::ListenAsSaid(bind);
    if (!said.ok()) return Wrong("FUSEWIRE_BIND", bind, said.status().cause(), said.status().next());
    return transport::ListeningPlace{said.value(), ""};
  }
  const std::string host = HostOf(own);
  if (transport::SaysLinkLocal(host)) {
    return Status::Invalid("the cluster has this task at " + host +
                           ", a link-local address, which means another machine on each link")
        .Next("put a global address of it into the cluster (TF_CONFIG)");
  }
  if (transport::SaysLoopback(host)) {
    for (const auto& [task, address] : tasks) {
      if (!transport::SaysLoopback(HostOf(address))) {
        return transport::ListeningPlace{"", "this task is at " + host + " to itself, but " + task + " is elsewhere"};
      }
    }
  }
  return transport::WhereToListen(host);
}

}  // namespace fusewire::tf
