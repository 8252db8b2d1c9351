import assert from "node:assert/strict";
import { test } from "node:test";
import { namespaceInPod, readCommandLine } from "../../../../triggers/plugin/arguments.ts";
import { help } from "../../../../triggers/plugin/help.ts";

const read = (line: string) => readCommandLine(line.split(" ").filter(Boolean));
const nowhere = { namespace: undefined, kubeconfig: undefined, context: undefined };

test("why takes one group or none, before or after its options", () => {
  assert.deepEqual(read("why"), { command: "why", ...nowhere, name: undefined, output: "text", isEverywhere: false });
  assert.deepEqual(read("why ingester"), {
    command: "why",
    ...nowhere,
    name: "ingester",
    output: "text",
    isEverywhere: false,
  });
  const everything = { namespace: "mimir", kubeconfig: "file", context: "prod" };
  for (const line of [
    "why budget:b -n mimir -o json --kubeconfig file --context prod",
    "--context=prod --kubeconfig=file -ojson why --namespace mimir budget:b",
  ]) {
    assert.deepEqual(read(line), {
      command: "why",
      ...everything,
      name: "budget:b",
      output: "json",
      isEverywhere: false,
    });
  }
});

test("status takes one group or none, and watches it or prints JSON only with the option for it", () => {
  const status = { command: "status", ...nowhere, group: undefined, output: "text", isEverywhere: false };
  assert.deepEqual(read("status"), { ...status, isWatching: false });
  assert.deepEqual(read("status ingester -w -o json"), {
    ...{ ...status, group: "ingester", output: "json", isWatching: true },
  });
  assert.deepEqual(read("status -A --watch"), { ...status, isEverywhere: true, isWatching: true });
});

test("check takes no name", () => {
  assert.deepEqual(read("check -n mimir"), { command: "check", ...nowhere, namespace: "mimir" });
});

test("page takes a port, and no name", () => {
  assert.deepEqual(read("page"), { command: "page", ...nowhere, port: 8002 });
  assert.deepEqual(read("page --port 0 -n mimir"), { command: "page", ...nowhere, namespace: "mimir", port: 0 });
});

test("release takes a group and a pod, and waits or pretends only with the option for it", () => {
  const release = { command: "release", ...nowhere, group: "g", pod: "g-a-0" };
  assert.deepEqual(read("release g g-a-0"), { ...release, wait: false, dryRun: false });
  assert.deepEqual(read("release g g-a-0 --wait --dry-run"), { ...release, wait: true, dryRun: true });
});

test("suspended takes one group or none and prints JSON or YAML; recover takes any number of names", () => {
  assert.deepEqual(read("suspended"), {
    command: "suspended",
    ...nowhere,
    name: undefined,
    output: "text",
    isEverywhere: false,
  });
  assert.deepEqual(read("suspended db -o yaml"), {
    command: "suspended",
    ...nowhere,
    name: "db",
    output: "yaml",
    isEverywhere: false,
  });
  const names = ["data-db-0", "data-db-1"];
  const recover = { command: "recover", ...nowhere, names, cluster: undefined, wait: false, dryRun: false };
  assert.deepEqual(read("recover data-db-0 data-db-1"), recover);
  assert.deepEqual(read("recover data-db-0 data-db-1 --wait --dry-run"), { ...recover, wait: true, dryRun: true });
  const groups = { ...recover, names: ["storage-1", "storage-2"], cluster: "orders" };
  assert.deepEqual(read("recover process-groups orders storage-1 storage-2"), groups);
});

test("fence takes a node and a reason; confirm takes a node, and --yes; fenced takes one node or none", () => {
  const mark = "sluice.dev/unhealthy";
  const fence = { command: "fence", ...nowhere, node: "node-1", reason: "kubectl sluice fence", mark, dryRun: false };
  assert.deepEqual(read("fence node-1"), fence);
  assert.deepEqual(read("fence node-1 --reason=silent --dry-run"), { ...fence, reason: "silent", dryRun: true });
  const confirm = { command: "confirm", ...nowhere, namespace: "fencing", node: "node-1", dryRun: false };
  assert.deepEqual(read("confirm node-1 --yes -n fencing"), confirm);
  assert.deepEqual(read("fenced -o yaml"), { command: "fenced", ...nowhere, name: undefined, output: "yaml", mark });
  const fenced = { command: "fenced", ...nowhere, name: "node-1", output: "text", mark };
  assert.deepEqual(read("fenced node-1"), fenced);
  const other = "example.com/broken";
  assert.deepEqual(read(`fence node-1 --mark ${other}`), { ...fence, mark: other });
  assert.deepEqual(read(`fenced node-1 --mark=${other}`), { ...fenced, mark: other });
});

test("restart takes a group, and a pod or a way to restart all of it", () => {
  const restart = { command: "restart", ...nowhere, group: "db", pod: undefined, how: "usual", dryRun: false };
  assert.deepEqual(read("restart db"), restart);
  assert.deepEqual(read("restart db db-0 --dry-run"), { ...restart, pod: "db-0", dryRun: true });
  assert.deepEqual(read("restart db --coordinated"), { ...restart, how: "coordinated" });
  assert.deepEqual(read("restart db db-0 --cancel"), { ...restart, pod: "db-0", how: "cancel" });
});

test("pause and resume take a group, and one zone of it or none", () => {
  for (const command of ["pause", "resume"]) {
    const all = { command, ...nowhere, group: "db", zone: undefined, dryRun: false };
    assert.deepEqual(read(`${command} db`), all);
    assert.deepEqual(read(`${command} db db-zone-a --dry-run`), { ...all, zone: "db-zone-a", dryRun: true });
  }
});

test("drain takes one node, and a namespace only if the user gives one", () => {
  assert.deepEqual(read("drain node-1"), { command: "drain", ...nowhere, node: "node-1" });
  assert.deepEqual(read("version"), { command: "version", ...nowhere });
  assert.deepEqual(read("drain node-1 -n db"), { command: "drain", ...nowhere, namespace: "db", node: "node-1" });
});

test("why and suspended take -A for all namespaces, with a name or without", () => {
  const everywhere = { ...nowhere, output: "text", isEverywhere: true };
  assert.deepEqual(read("why -A"), { command: "why", ...everywhere, name: undefined });
  assert.deepEqual(read("suspended db --all-namespaces"), { command: "suspended", ...everywhere, name: "db" });
});

test("wait takes a group, what to wait for, and a duration as Go writes it", () => {
  const wait = { command: "wait", ...nowhere, group: "db", goal: "done", timeoutMs: 1_800_000 };
  assert.deepEqual(read("wait db"), wait);
  assert.deepEqual(read("wait db --for idle --timeout 1m30s"), { ...wait, goal: "idle", timeoutMs: 90_000 });
  assert.deepEqual(read("wait db --timeout=0"), { ...wait, timeoutMs: 0 });
});

test("the plugin prints its help without arguments, and wherever the command line has --help", () => {
  for (const line of ["", "--help", "-h", "why -h", "release --help"])
    assert.deepEqual(read(line), { command: "help" });
});

test("a wrong command line is answered by one message that names the mistake", () => {
  const mistakes: Record<string, RegExp> = {
    "-n mimir": /^there is no command: write status, page, .+, confirm, restart, check or version$/,
    whyy: /^there is no command "whyy": write status, page, .+, confirm, restart, check or version$/,
    "why a b": /^why takes one GROUP or none; given: 2$/,
    "why -o yaml": /^--output is "yaml"; write json, or leave it out$/,
    "why -o json -o json": /^--output is given several times$/,
    "why -n a --namespace b": /^--namespace is given several times$/,
    "why --force": /^Unknown option '--force'$/,
    "why -o": /^Option '-o, --output <value>' argument missing$/,
    "why -n Mimir": /^--namespace is "Mimir", which is no name of a namespace$/,
    "why --wait": /^--wait belongs to release and recover, not to why$/,
    "suspended a b": /^suspended takes one GROUP or none; given: 2$/,
    "suspended -o xml": /^--output is "xml"; write json or yaml, or leave it out$/,
    "suspended --wait": /^--wait belongs to release and recover, not to suspended$/,
    recover: /^recover takes the names of volume claims, or a GROUP; given: 0$/,
    "recover process-groups orders":
      /^recover process-groups takes a FoundationDBCluster and the ids of its process groups$/,
    "recover process-groups a/b storage-1": /^"a\/b" is no name of a FoundationDBCluster$/,
    release: /^release takes two names, a GROUP and a POD; given: 0$/,
    "release g": /^release takes two names, a GROUP and a POD; given: 1$/,
    "release g p q": /^release takes two names, a GROUP and a POD; given: 3$/,
    "release g ../secrets": /^"..\/secrets" is no name of a pod$/,
    "release g p -o json": /^--output belongs to status, why, suspended and fenced, not to release$/,
    "release g p --dry-run=server": /^Option '--dry-run' does not take an argument$/,
    fence: /^fence takes one NODE; given: 0$/,
    "fence a b": /^fence takes one NODE; given: 2$/,
    "fence Node": /^"Node" is no name of a Node$/,
    "fence a --reason=": /^--reason is empty$/,
    "fence a --mark=": /^--mark is ""; write one key, such as example\.com\/broken; none of kubernetes\.io, /,
    "fenced --mark sluice.dev/fence": /^--mark is "sluice\.dev\/fence"; write one key, /,
    "confirm a --mark b/c": /^--mark belongs to fence and fenced, not to confirm$/,
    "fence a --yes": /^--yes belongs to confirm, not to fence$/,
    "fenced a b": /^fenced takes one NODE or none; given: 2$/,
    "confirm a": /^confirm ends what keeps the pods .* Write --yes once you have seen that it is off$/,
    "confirm a --yes --reason=x": /^--reason belongs to fence, not to confirm$/,
    restart: /^restart takes a GROUP, and one POD or none; given: 0$/,
    "restart g p q": /^restart takes a GROUP, and one POD or none; given: 3$/,
    "restart g ../p": /^"..\/p" is no name of a pod$/,
    "restart g p --coordinated": /^--coordinated restarts all processes of a group at once: leave the POD out$/,
    "restart g --coordinated --cancel": /^--coordinated begins a restart and --cancel ends one: write one of them$/,
    "restart g --wait": /^--wait belongs to release and recover, not to restart$/,
    pause: /^pause takes a GROUP, and one ZONE or none; given: 0$/,
    "resume g z y": /^resume takes a GROUP, and one ZONE or none; given: 3$/,
    "pause g ../z": /^"..\/z" is no name of a StatefulSet$/,
    "pause g --wait": /^--wait belongs to release and recover, not to pause$/,
    "status a b": /^status takes one GROUP or none; given: 2$/,
    "status -o yaml": /^--output is "yaml"; write json, or leave it out$/,
    "why -w": /^--watch belongs to status, not to why$/,
    "check db": /^check takes no name; given: 1$/,
    "check -o json": /^--output belongs to status, .+, not to check$/,
    "page db": /^page takes no name; given: 1$/,
    "page --port 65536": /^--port is "65536"; write a number up to 65535$/,
    "page --port http": /^--port is "http"; write /,
    "why --port 1": /^--port belongs to page, not to why$/,
    "why -A -n db": /^--namespace names one namespace, and --all-namespaces all of them: write one of the two$/,
    "fenced -A": /^--all-namespaces belongs to status, why and suspended, not to fenced$/,
    "version a": /^version takes no name; given: 1$/,
    "version -o json": /^--output belongs to status, why, suspended and fenced, not to version$/,
    drain: /^drain takes one NODE; given: 0$/,
    "drain a b": /^drain takes one NODE; given: 2$/,
    "drain ../a": /^"..\/a" is no name of a Node$/,
    "drain a --dry-run": /^--dry-run belongs to .+, not to drain$/,
    wait: /^wait takes one GROUP; given: 0$/,
    "wait a b": /^wait takes one GROUP; given: 2$/,
    "wait a --for ready": /^--for is "ready"; write done or idle$/,
    "wait a --timeout 5": /^--timeout is "5"; write a duration such as 90s or 1h30m, or 0$/,
    "wait a --timeout=-5s": /^--timeout is "-5s"; write a duration such as/,
    "why a --for done": /^--for belongs to wait, not to why$/,
    "release g p --cancel": /^--cancel belongs to restart, not to release$/,
    "release g p --force": /^Unknown option '--force'$/,
  };
  for (const [line, expected] of Object.entries(mistakes)) {
    const command = read(line);
    assert.ok("mistake" in command, line);
    assert.match(command.mistake, expected);
  }
});

test("the help names every option and every exit code, and fits a terminal", () => {
  for (const word of [
    "--namespace",
    "--all-namespaces",
    "--output",
    "--wait",
    "--dry-run",
    "--reason",
    "--mark",
    "--yes",
    "--coordinated",
    "--cancel",
    "--for",
    "--timeout",
    "--watch",
    "--port",
    "--kubeconfig",
    "--context",
    "0 ",
    "1 ",
    "2 ",
    "with 3 ",
  ]) {
    assert.ok(help.includes(word), word);
  }
  for (const line of help.split("\n")) assert.ok(line.length <= 130, line);
});

test("in a pod the plugin reads the pod's namespace if that is served, and otherwise the first served namespace", () => {
  for (const setting of [undefined, "", "*", "mimir", "loki, mimir"])
    assert.equal(namespaceInPod(setting, "mimir"), "mimir", setting);
  assert.equal(namespaceInPod("loki,tempo", "mimir"), "loki");
});
