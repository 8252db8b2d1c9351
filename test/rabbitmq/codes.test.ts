/** The table in the stop gate's README: what each exit code of RabbitMQ's tools, 3.x and 4.x, means to the gate. */
import assert from "node:assert/strict";
import { after, suite, test } from "node:test";
import { packagesForTests } from "../support/packages.ts";
import { Gate, makePodFiles } from "./gate.ts";
import { type Shell, shellsOf } from "./shells.ts";
import { type Answers, StandIns } from "./stand-ins.ts";

const packages = await packagesForTests();

/** `quorum-critical` and `mirror-critical` wait, whatever the policy is; `no-answer` follows the policy. */
type Verdict = "passed" | "node-down" | "quorum-critical" | "mirror-critical" | "no-answer";

interface Row {
  readonly what: string;
  readonly answers: Answers;
  readonly verdict: Verdict;
}

const row = (what: string, answers: Answers, verdict: Verdict): Row => ({ what, answers, verdict });

const gone = `echo "  * epmd reports: node 'rabbit' not running at all"; exit 69`;
const cookie = `echo "  * TCP connection succeeded but Erlang distribution failed"; exit 69`;
const critical = `echo "queue 'q1' in vhost '/' would lose quorum if node rabbit@a is stopped"; exit 69`;
const unsynchronised = `echo "queue 'm1' in vhost '/' would lose its only synchronised replica"; exit 69`;
const four = "echo 4.1.3";
/** A ping that answers once, and then never again. */
const onceReached = `[ -e "$STAND_INS/pinged" ] && exit 69; : >"$STAND_INS/pinged"`;

const ofAnyVersion: readonly Row[] = [
  row("nothing is critical", {}, "passed"),
  row("the node is in maintenance", { quorum: "echo 'seems to be in maintenance mode'; exit 0" }, "passed"),
  row("the check is answered although the ping was too late", { ping: 75 }, "passed"),
  row("69, reached before and after: critical", { quorum: critical }, "quorum-critical"),
  row("69 without a word, reached before and after: critical", { quorum: 69 }, "quorum-critical"),
  row("69, and after it the node is not reached", { ping: onceReached, quorum: critical }, "no-answer"),
  row("69 from both, and no such node is registered", { ping: 69, quorum: gone }, "node-down"),
  row("69 from both, with another cookie", { ping: 69, quorum: cookie }, "no-answer"),
  row("69 from both, without a word", { ping: 69, quorum: 69 }, "no-answer"),
  row("69 from ping, and the check runs into its time limit: the node hangs", { ping: 69, quorum: 75 }, "no-answer"),
  row("64, and the application does not run", { quorum: 64, running: 69 }, "node-down"),
  row("64, and the application runs: no such command", { quorum: 64, running: 0 }, "no-answer"),
  row("64, and no tool says whether the application runs", { quorum: 64, running: 75 }, "no-answer"),
  row("64 from both", { ping: 64, quorum: 64 }, "no-answer"),
  ...[1, 65, 67, 70, 75, 78, 126, 127, 137].map((code) => row(`${code} from the check`, { quorum: code }, "no-answer")),
  ...[1, 64, 70, 75].map((code) =>
    row(`${code} from ping, 69 from the check`, { ping: code, quorum: 69 }, "no-answer"),
  ),
];

const of3: readonly Row[] = [
  row("3.x: a mirrored queue has no synchronised mirror", { mirrors: unsynchronised }, "mirror-critical"),
  row("3.x: 69 of mirrors, and after it the node is not reached", { ping: onceReached, mirrors: 69 }, "no-answer"),
  ...[64, 70, 75, 78].map((code) => row(`3.x: ${code} from the check for mirrors`, { mirrors: code }, "no-answer")),
];

const of4: readonly Row[] = [
  ...[0, 64, 69, 75].map((code) =>
    row(`4.x: mirrored queues are gone, and ${code} means nothing`, { version: four, mirrors: code }, "passed"),
  ),
  row("4.x: critical", { version: four, quorum: critical }, "quorum-critical"),
  row("a version that is not told: 64 from the check for mirrors", { version: 70, mirrors: 64 }, "passed"),
  row("a version that is not told: 69 from the check for mirrors", { version: 70, mirrors: 69 }, "mirror-critical"),
  row("a version that is not told: 75 from the check for mirrors", { version: 70, mirrors: 75 }, "no-answer"),
];

/** The verdict of a gate whose policy releases at once what it does not know. */
async function verdictOf(shell: Shell, answers: Answers): Promise<{ verdict: string; calls: readonly string[] }> {
  const pod = await makePodFiles();
  const standIns = await StandIns.make(pod, answers);
  const policy = { STOP_GATE_ON_UNKNOWN: "release", STOP_GATE_UNKNOWN_SECONDS: "0", STOP_GATE_POLL_SECONDS: "0" };
  const environment = { ...standIns.environment(shell.system), ...policy };
  const gate = new Gate({ pod, shell: shell.command, environment });
  try {
    const waits = /^waits \(((?:quorum|mirror)-critical)\)/;
    const ended = gate.ended.then(({ outcome }) => (outcome === "released-unknown" ? "no-answer" : outcome));
    const waiting = gate.reported(waits, 20_000).then(
      (line) => waits.exec(line)?.[1] ?? line,
      (error) => (gate.isRunning() ? Promise.reject(error) : ended),
    );
    return { verdict: await Promise.race([waiting, ended]), calls: await standIns.calls() };
  } finally {
    await gate.kill();
    await pod.remove();
  }
}

suite("the stop gate's table of exit codes", { skip: packages === undefined, concurrency: 4 }, async () => {
  const shells = packages === undefined ? [] : await shellsOf(packages);
  for (const shell of shells) {
    for (const { what, answers, verdict } of [...ofAnyVersion, ...of3, ...of4]) {
      test(`${shell.name}: ${what}: ${verdict}`, async () => {
        assert.equal((await verdictOf(shell, answers)).verdict, verdict);
      });
    }

    test(`${shell.name}: 4.x is not asked for mirrored queues, and 3.x is`, async () => {
      const asked = async (answers: Answers) =>
        (await verdictOf(shell, answers)).calls.some((call) => call.includes("check_if_node_is_mirror_sync_critical"));
      assert.deepEqual([await asked({ version: four }), await asked({})], [false, true]);
    });
  }
});

after(() => assert.ok(packages === undefined || ofAnyVersion.length + of3.length + of4.length > 35));
