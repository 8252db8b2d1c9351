/** Each bad setting of the agent has a message of one line that says what to write. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { agentSettings, readSettings } from "../../../../../functions/fence-node/agent/settings.ts";

const main = new URL("../../../../../functions/fence-node/agent/main.ts", import.meta.url).pathname;
const least = { NODE_NAME: "node-1", KUBERNETES_SERVICE_HOST: "10.0.0.1" };

test("the defaults of the agent are taken", () => {
  assert.deepEqual(readSettings(least), {
    node: "node-1",
    namespace: "sluice-fencing",
    host: "10.0.0.1",
    port: 443,
    credentials: "/var/run/secrets/kubernetes.io/serviceaccount",
    runFolder: "/run/sluice",
    watchdog: "/dev/watchdog",
    watchdogMs: undefined,
    resetFile: undefined,
    stateFolder: "/var/lib/sluice",
    hosts: undefined,
    peerPort: 9843,
    drillEveryMs: 60_000,
    peerTimeoutMs: 4_000,
    renewEveryMs: 5_000,
    renewTimeoutMs: 3_000,
    freshMs: 20_000,
    permitMs: 40_000,
  });
});

test("times that are shorter than the defaults are taken as long as they fit together", () => {
  const scaled = {
    ...least,
    AGENT_WATCHDOG_SECONDS: "1",
    AGENT_RENEW_EVERY: "300ms",
    AGENT_RENEW_TIMEOUT: "200ms",
    AGENT_CONTACT_TIMEOUT: "1.2s",
    AGENT_PERMIT: "2.5s",
    AGENT_PEER_TIMEOUT: "500ms",
    HOST_IPS: "10.0.0.7,fd00::7",
  };
  const settings = readSettings(scaled);
  assert.ok("permitMs" in settings, String(settings));
  assert.deepEqual([settings.permitMs, settings.watchdogMs], [2_500, 1_000]);
  assert.deepEqual(settings.hosts, ["10.0.0.7", "fd00::7"]);
  assert.deepEqual(readSettings({ ...scaled, AGENT_CONTACT_TIMEOUT: "1199ms" }), [
    "AGENT_CONTACT_TIMEOUT is 1199 ms: write at least 1200 ms, twice AGENT_RENEW_EVERY and three times AGENT_RENEW_TIMEOUT, so that a lost renewal does not break the contact",
  ]);
  assert.deepEqual(readSettings({ ...scaled, AGENT_PERMIT: "2499ms" }), [
    "AGENT_PERMIT is 2499 ms: write at least 2500 ms, the sum of AGENT_CONTACT_TIMEOUT, twice AGENT_RENEW_EVERY, AGENT_RENEW_TIMEOUT and AGENT_PEER_TIMEOUT, so that peers can excuse the node in time",
  ]);
});

const bad: Readonly<Record<string, readonly string[]>> = {
  NODE_NAME: ["", "Node", "a b", "-", `${"a".repeat(248)}`, "../x"],
  FENCE_NAMESPACE: ["A", "a.b", "a/b"],
  KUBERNETES_SERVICE_HOST: ["", "a b", "https://x"],
  KUBERNETES_SERVICE_PORT: ["0", "65536", "-1", "x", "1.5"],
  AGENT_CREDENTIALS: ["token"],
  AGENT_RUN_FOLDER: ["run"],
  AGENT_WATCHDOG: ["watchdog"],
  AGENT_WATCHDOG_SECONDS: ["0", "-1", "10s", "1e9", "3601", "x"],
  AGENT_RESET_FILE: ["reset"],
  AGENT_RENEW_EVERY: ["5", "0s", "-5s", "2h", "x"],
  AGENT_RENEW_TIMEOUT: ["3", "0s"],
  AGENT_CONTACT_TIMEOUT: ["20"],
  AGENT_PERMIT: ["forever"],
  AGENT_STATE_FOLDER: ["state"],
  HOST_IPS: ["host", "10.0.0.1, 10.0.0.2", "10.0.0.1,", "1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5"],
  AGENT_PORT: ["0", "65536", "x"],
  AGENT_DRILL_EVERY: ["1", "2h"],
  AGENT_PEER_TIMEOUT: ["4", "0s"],
};

test("each malformed setting is named with its value and its grammar, in one line", () => {
  assert.deepEqual(
    Object.keys(bad).sort(),
    Object.values(agentSettings)
      .map(({ name }) => name)
      .sort(),
  );
  for (const [name, texts] of Object.entries(bad)) {
    const { grammar } = Object.values(agentSettings).find((one) => one.name === name) ?? {};
    for (const text of texts) {
      const shown = text === "" ? "not set" : JSON.stringify(text);
      assert.deepEqual(readSettings({ ...least, [name]: text }), [`${name} is ${shown}: write ${grammar}`]);
    }
  }
});

test("the process ends with exit code 2, and one line for each bad setting", () => {
  const env = { PATH: process.env.PATH, NODE_NAME: "X", AGENT_PERMIT: "1\n2" };
  const { status, stderr, stdout } = spawnSync(process.execPath, [main], { env, encoding: "utf8" });
  assert.deepEqual([status, stdout], [2, ""]);
  const lines = stderr.trimEnd().split("\n");
  assert.deepEqual(
    lines.map((line) => line.split(" ")[0]),
    ["NODE_NAME", "KUBERNETES_SERVICE_HOST", "AGENT_PERMIT"],
  );
});
