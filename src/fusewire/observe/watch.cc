// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/watch.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <utility>

#include "fusewire/base/clock.h"
#include "fusewire/base/parse.h"
#include "fusewire/observe/folder.h"
#include "fusewire/observe/json.h"

namespace fusewire::observe {
namespace {

// The file of a process that has just died still says where it was.
constexpr int64_t kStaleAgeS = 600;

std::atomic<Watch*> the_watch{nullptr};

double TimeS() {
  timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Answer JsonAnswer(std::string body) {
  Answer answer;
  answer.type = "application/json";
  answer.body = std::move(body);
  return answer;
}

bool ParsePlace(const std::string& text, Place* place) {
  *place = Place();
  if (text.empty() || text == "loopback") return true;
  if (text == "off") {
    place->is_off = true;
    return true;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return false;
  std::string host = text.substr(0, colon);
  const std::string port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    return false;
  }
  uint16_t number = 0;
  if (!ParseNumber(port, &number)) return false;
  SocketName name;
  if (!name.Set(host, number)) return false;
  place->host = host;
  place->port = number;
  place->is_loopback = name.is_loopback();
  return true;
}

}  // namespace

Watch::Watch(Options options)
    : options_(std::move(options)),
      pid_(getpid()),
      start_(StartOf(pid_)),
      machine_(MachineName()),
      pid_space_(PidSpace()),
      begun_ns_(Clock::Real()->NowNs()) {}

Watch& Watch::Start(Options options, Status* failed) {
  static auto* mutex = new Mutex;
  MutexLock lock(*mutex);
  if (Watch* there = Get()) return *there;
  static const bool is_told = pthread_atfork(nullptr, nullptr, AfterFork) == 0;
  auto* watch = new Watch(std::move(options));  // until the process ends, as those who record do
  the_recorder.store(&watch->recorder_, std::memory_order_release);
  *failed = watch->OpenPort();
  the_watch.store(watch, std::memory_order_release);
  if (!is_told && failed->ok()) *failed = Status::Overloaded("no memory for the fork handler of the status port");
  return *watch;
}

Watch* Watch::Get() { return the_watch.load(std::memory_order_acquire); }

// In a child of fork(), which has neither the parent's threads nor the right to its port. The parent's object stays as
// it is: a lock of it may be held forever.
void Watch::AfterFork() {
  Watch* watch = the_watch.exchange(nullptr);
  the_recorder.store(nullptr);
  if (watch != nullptr && watch->port_ != nullptr) watch->port_->CloseInChild();
}

Status Watch::OpenPort() {
  Port::Options port;
  port.host = options_.host;
  port.port = options_.port;
  port.secret = options_.secret;
  port.answer = [this](const Request& request) { return AnswerTo(request); };
  port.turn = [this] {
    history_.Add(recorder_, options_.numbers ? options_.numbers() : std::vector<Number>(), Clock::Real()->NowNs());
  };
  port.turn_ns = History::kEveryNs;
  port.hosts = [this] { return OwnHosts(); };
  port_ = FUSEWIRE_TRY(Port::Open(std::move(port)));
  const std::string folder = FUSEWIRE_TRY(OpenFolder(options_.runtime, options_.temporary));
  RemoveStale(folder, kStaleAgeS);
  number_ = FUSEWIRE_TRY(ClaimEntry(folder, pid_, start_, Entry()));
  folder_ = folder;
  return Status::Ok();
}

void Watch::AddTask(TaskFacts task) {
  {
    MutexLock lock(mutex_);
    Forget(task.task);
    task.members = Shared(std::move(task.members));
    tasks_.push_back(std::move(task));
  }
  WriteFile();
}

bool Watch::HasTask(const std::string& task) {
  MutexLock lock(mutex_);
  return std::any_of(tasks_.begin(), tasks_.end(), [&task](const TaskFacts& each) { return each.task == task; });
}

void Watch::RemoveTask(const std::string& task) {
  {
    MutexLock lock(mutex_);
    Forget(task);
  }
  WriteFile();
}

void Watch::Forget(const std::string& task) {
  std::erase_if(tasks_, [&task](const TaskFacts& each) { return each.task == task; });
}

void Watch::SetMembers(const std::string& task, Members members) {
  {
    MutexLock lock(mutex_);
    const auto shared = Shared(std::make_shared<Members>(std::move(members)));
    for (TaskFacts& each : tasks_) {
      if (each.task == task) each.members = shared;
    }
  }
  WriteFile();
}

// Those of another task, if they are equal.
std::shared_ptr<const Members> Watch::Shared(std::shared_ptr<const Members> members) const {
  for (const TaskFacts& each : tasks_) {
    if (*each.members == *members) return each.members;
  }
  return members;
}

void Watch::Leave() {
  if (!folder_.empty() && getpid() == pid_) RemoveEntry(folder_, pid_, number_);
}

// Behind NAT they are not addresses of this machine.
std::vector<std::string> Watch::OwnHosts() {
  std::vector<std::string> hosts;
  MutexLock lock(mutex_);
  for (const TaskFacts& task : tasks_) {
    const auto own = task.members->find(task.task);
    if (own == task.members->end()) continue;
    std::string host = own->second.substr(0, own->second.rfind(':'));
    // Every machine has these.
    if (host.rfind("127.", 0) != 0 && host != "localhost" && host != "[::1]") hosts.push_back(std::move(host));
  }
  return hosts;
}

Facts Watch::ReadFacts() {
  Facts facts;
  facts.version = options_.version;
  facts.pid = pid_;
  facts.start = start_;
  facts.machine = machine_;
  const ProcessUse use = ReadProcessUse();
  facts.cpu_ns = use.cpu_ns;
  facts.memory_bytes = use.memory_bytes;
  facts.begun_ns = begun_ns_;
  facts.now_ns = Clock::Real()->NowNs();
  facts.time_s = TimeS();
  if (options_.numbers != nullptr) facts.numbers = options_.numbers();
  MutexLock lock(mutex_);
  facts.tasks = tasks_;
  return facts;
}

void Watch::WriteFile() {
  if (folder_.empty() || port_ == nullptr) return;
  MutexLock lock(file_mutex_);
  bool is_empty = false;
  {
    MutexLock tasks(mutex_);
    is_empty = tasks_.empty();
  }
  if (is_empty) {
    Leave();
  } else {
    (void)WriteEntry(folder_, pid_, number_, Entry());  // without it, the port is found by its number
  }
}

std::string Watch::Entry() {
  const Facts facts = ReadFacts();
  std::string text;
  JsonWriter json(&text);
  json.Open('{');
  json.Key("pid").Signed(facts.pid);
  json.Key("start").Number(facts.start);
  json.Key("pid_space").Text(pid_space_);
  json.Key("host").Text(options_.host);
  json.Key("port").Number(port());
  size_t number = 0;
  json.Key("tasks").Objects(facts.tasks, [&](const TaskFacts& task) {
    json.Key("task").Text(task.task);
    WriteMembers(facts.tasks, number++, &json);
  });
  json.Close('}');
  text += '\n';
  return text;
}

Answer Watch::AnswerTo(const Request& request) {
  Answer answer;
  if (request.path == "/") {
    answer.type = "text/html; charset=utf-8";
    answer.body = std::string(Page());
  } else if (request.path == "/healthz") {
    answer.body = "ok\n";
  } else if (request.path == "/status.json") {
    answer = JsonAnswer(StatusJson(recorder_, ReadFacts()));
  } else if (request.path == "/ring.json") {
    const std::string_view after = ParameterOf(request.query, "after_ns");
    int64_t after_ns = 0;
    if (!after.empty() && !ParseNumber(after, &after_ns)) {
      answer.status = 400;
      answer.body = "after_ns is not a whole number\n";
    } else {
      short_ops_wanted.store(kShortOpsWanted, std::memory_order_relaxed);
      answer = JsonAnswer(RingJson(recorder_, ReadFacts(), after_ns));
    }
  } else if (request.path == "/history.json") {
    answer = JsonAnswer(history_.Json());
  } else if (request.path == "/now") {
    answer = JsonAnswer("{\"now_ns\":" + std::to_string(Clock::Real()->NowNs()) + "}\n");
  } else if (request.path == "/metrics") {
    answer.type = "text/plain; version=0.0.4; charset=utf-8";
    answer.body = MetricsText(recorder_, ReadFacts());
  } else {
    answer.status = 404;
    answer.body = "the paths are /, /status.json, /history.json, /ring.json, /metrics and /healthz\n";
  }
  return answer;
}

Result<Place> ReadPlace(const std::string& text, const std::string& secret) {
  Place place;
  if (!ParsePlace(text, &place)) {
    return Status::Invalid("\"" + text + "\" is not a valid status address")
        .Next("set FUSEWIRE_STATUS to off, loopback, ADDRESS:PORT or [ADDRESS]:PORT");
  }
  if (!place.is_off && !place.is_loopback && secret.empty()) {
    return Status::Refused("the status port stays closed: " + text +
                           " is not on loopback, and there is no secret that requests could prove to know")
        .Next("set FUSEWIRE_SECRET, the same for all of the job, or FUSEWIRE_STATUS=loopback");
  }
  return place;
}

Status StartWatch(const Place& place, const std::string& secret, const std::string& runtime_folder,
                  std::function<std::vector<Number>()> numbers) {
  if (place.is_off) return Status::Ok();
  Watch::Options options(place, secret, runtime_folder);
  options.numbers = std::move(numbers);
  Status failed;
  (void)Watch::Start(std::move(options), &failed);
  return failed;
}

Watch::Options::Options(const Place& place, const std::string& secret_in, const std::string& runtime_folder)
    : version(Version()),
      host(place.host),
      port(place.port),
      secret(place.is_loopback ? "" : secret_in),
      runtime(runtime_folder),
      temporary("/tmp") {}

}  // namespace fusewire::observe
