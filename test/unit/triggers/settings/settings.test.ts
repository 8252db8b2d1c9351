import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Environment } from "../../../../functions/shared/base/settings.ts";
import { isStandard } from "../../../../functions/shared/contract/definition.ts";
import { flags } from "../../../../triggers/settings/flags-table.ts";
import { readSettings, settingsTable } from "../../../../triggers/settings/settings.ts";
import { help } from "../../../../triggers/settings/settings-help.ts";
import { table } from "../../../../triggers/table.ts";

function valid(environment: Environment) {
  const { settings, mistakes } = readSettings(environment);
  assert.deepEqual(mistakes, []);
  return settings;
}

function mistakesOf(environment: Environment): readonly string[] {
  return readSettings(environment).mistakes;
}

test("an empty environment is valid, and serves the process's own namespace", () => {
  assert.deepEqual(valid({}), {
    kubeconfig: "",
    namespaces: "own",
    functions: table.filter(isStandard).map(({ name }) => name),
    mode: "act",
    otherOperator: "wait",
    views: "watch",
    watchIdleMs: 20_000,
    port: 8080,
    tlsPort: "off",
    tlsCertFile: "",
    tlsKeyFile: "",
    tlsClientCaFile: "",
    reviewsOnPort: false,
    statusListen: "off",
    tlsSecretName: "rollout-operator-self-signed-certificate",
    tlsDnsName: "",
    tlsOrganisation: "Grafana Labs",
    tlsCertLifetimeMs: 365 * 24 * 3_600_000,
    updateCaBundle: true,
    zoneTrackerName: "rollout-operator-zone-tracker",
    evictionWaitMs: 8_000,
    rebalanceAfterMs: 60_000,
    writesLastDownscale: false,
    skipLabelWaitMs: 90_000,
    skipLabelKeys: ["skipPreStopChecks", "sluice.dev/*"],
    skipLabelKinds: [],
    skipLabelMarker: "none",
    skipLabelFinalizer: "keep",
    volumeHold: "keep",
    fenceNamespace: "sluice-fencing",
    fenceMaxConcurrent: 1,
    fenceStormPercent: 40,
    nodeHealthAfterMs: "off",
    fenceStormCooldownMs: 300_000,
    fenceMostPerHour: 3,
    fenceMark: "sluice.dev/unhealthy",
    fenceMachineKinds: [],
    logLevel: "info",
    sweepIntervalMs: 300_000,
    gatherMs: 20,
    concurrency: 8,
    queueKeys: 10_000,
    bodyLimitBytes: 1_048_576,
    requestTimeoutMs: 10_000,
    kubernetesTimeoutMs: 10_000,
    clusterDomain: "cluster.local.",
    podTimeoutMs: 5_000,
    drainTimeoutMs: 25_000,
    shutdownDelayMs: 10_000,
  });
});

test("a function's setting is declared in its definition, and every process with that function accepts it", () => {
  const own = table.flatMap(({ name, settings = {} }) =>
    Object.entries(settings).map((entry) => [name, ...entry] as const),
  );
  assert.ok(own.some(([name]) => name === "rotate-certificate"));
  const taken: Readonly<Record<string, unknown>> = settingsTable;
  for (const [name, field, described] of own) {
    assert.equal(taken[field], described, field);
    const readme = readFileSync(new URL(`../../../../functions/${name}/README.md`, import.meta.url), "utf8");
    assert.ok(readme.includes(described.name), `${name}/README.md does not say what ${described.name} is for`);
  }
});

test("an empty variable counts as not set, so that a template without its value never means all namespaces", () => {
  assert.deepEqual(valid({ NAMESPACE: "", PORT: " ", SLUICE_MODE: "" }), valid({}));
});

test("namespaces are one, several, or all by a star alone", () => {
  assert.deepEqual(valid({ NAMESPACE: "mimir" }).namespaces, ["mimir"]);
  assert.deepEqual(valid({ NAMESPACE: "mimir, loki,mimir" }).namespaces, ["mimir", "loki"]);
  assert.equal(valid({ NAMESPACE: "*" }).namespaces, "all");
  for (const text of ["mimir,", ",", "a,*", "Mimir", "a_b", "a.b", "a".repeat(64), "../x"]) {
    assert.equal(mistakesOf({ NAMESPACE: text }).length, 1, text);
  }
});

test("each mistake is reported in a line that says what is wrong and what to write", () => {
  assert.deepEqual(
    mistakesOf({ SLUICE_MODE: "shadows", OTHER_OPERATOR: "yes", FUNCTION: "roll", LOG_LEVEL: "trace" }),
    [
      `FUNCTION is "roll"; write all, or one or several of ${table.map(({ name }) => name).join(", ")} with commas between them`,
      'SLUICE_MODE is "shadows"; write act or shadow',
      'OTHER_OPERATOR is "yes"; write wait or ignore',
      'LOG_LEVEL is "trace"; write debug, info, warn, error',
    ],
  );
});

test("numbers are whole and within their limits", () => {
  assert.equal(valid({ PORT: "0" }).port, 0);
  for (const text of ["-1", "65536", "80.5", "8e3", "0x50", "port", "99999999999"]) {
    assert.equal(mistakesOf({ PORT: text }).length, 1, text);
  }
});

test("a certificate and its key must be set together; without them a port has a self-signed one", () => {
  const files = { TLS_CERT_FILE: "/tls/tls.crt", TLS_KEY_FILE: "/tls/tls.key" };
  assert.equal(valid({ TLS_PORT: "8443", ...files }).tlsPort, 8443);
  assert.equal(valid({ TLS_PORT: "0", ...files }).tlsCertFile, "/tls/tls.crt");
  assert.equal(valid({ TLS_PORT: "off" }).tlsPort, "off");
  assert.equal(valid({ TLS_PORT: "8443" }).tlsCertFile, "");
  assert.deepEqual(mistakesOf({ TLS_PORT: "8443", TLS_CERT_FILE: "/tls/tls.crt" }), [
    "TLS_KEY_FILE is not set; write a path, or set neither file for a self-signed certificate",
  ]);
  assert.deepEqual(mistakesOf({ TLS_KEY_FILE: "/tls/tls.key" }), [
    "TLS_KEY_FILE is set without TLS_PORT; set TLS_PORT too, or neither",
  ]);
  assert.equal(mistakesOf({ TLS_PORT: "https", ...files }).length, 1);
});

test("client certificates are required only on a TLS port, and not beside a port that requires none", () => {
  const file = { TLS_CLIENT_CA_FILE: "/tls/clients.crt" };
  assert.equal(valid({ TLS_PORT: "8443", ...file }).tlsClientCaFile, "/tls/clients.crt");
  assert.equal(valid({ REVIEWS_ON_PORT: "true" }).reviewsOnPort, true);
  assert.deepEqual(mistakesOf(file), ["TLS_CLIENT_CA_FILE is set without TLS_PORT; set TLS_PORT too, or neither"]);
  assert.deepEqual(mistakesOf({ TLS_PORT: "8443", REVIEWS_ON_PORT: "true", ...file }), [
    "REVIEWS_ON_PORT is true beside TLS_CLIENT_CA_FILE; PORT asks no client for a certificate",
  ]);
  assert.deepEqual(mistakesOf({ REVIEWS_ON_PORT: "yes" }), ['REVIEWS_ON_PORT is "yes"; write true or false']);
});

test("the self-signed certificate is rollout-operator's by default, and a name that no certificate can have is refused", () => {
  const settings = valid({ TLS_DNS_NAME: "sluice.ops.svc", TLS_ORGANISATION: "Ünïcode, O=x", TLS_CERT_LIFETIME: "1m" });
  assert.deepEqual(
    [settings.tlsDnsName, settings.tlsOrganisation, settings.tlsCertLifetimeMs],
    ["sluice.ops.svc", "Ünïcode, O=x", 60_000],
  );
  for (const environment of [
    { TLS_SECRET_NAME: "Secret" },
    { TLS_SECRET_NAME: "a/b" },
    { TLS_DNS_NAME: "*.ops.svc" },
    { TLS_DNS_NAME: "a b" },
    { TLS_ORGANISATION: "x".repeat(65) },
    { TLS_ORGANISATION: "two\nlines" },
    { UPDATE_CA_BUNDLE: "no" },
    { TLS_CERT_LIFETIME: "59s" },
    { TLS_CERT_LIFETIME: "365d" },
    { TLS_CERT_LIFETIME: "87601h" },
  ]) {
    assert.equal(mistakesOf(environment).length, 1, JSON.stringify(environment));
  }
});

test("durations are Go's, and the sweep interval is five minutes at most", () => {
  for (const [text, ms] of [
    ["5m", 300_000],
    ["1m30s", 90_000],
    ["1.5m", 90_000],
    [".5m", 30_000],
    ["0.025h", 90_000],
    ["90000ms", 90_000],
  ] as const) {
    assert.equal(valid({ SWEEP_INTERVAL: text }).sweepIntervalMs, ms, text);
  }
  for (const text of ["5m1s", "6m", "0", "0s", "300", "5", "-1m", "5 m", "1d", "m", "5m5", "1h", "999ms"]) {
    assert.equal(mistakesOf({ SWEEP_INTERVAL: text }).length, 1, text);
  }
});

test("idle watches are closed after some seconds, before a silent one would be replaced; with 0 none is opened", () => {
  const idleMs = (WATCH_IDLE: string) => valid({ VIEWS: "awake", WATCH_IDLE }).watchIdleMs;
  assert.deepEqual([valid({ VIEWS: "awake" }).watchIdleMs, idleMs("1s"), idleMs("25s")], [20_000, 1_000, 25_000]);
  assert.deepEqual([idleMs("0"), idleMs("0s")], [0, 0]);
  for (const text of ["999ms", "26s", "1m", "-1s", "20", "0m0", "off"])
    assert.deepEqual(mistakesOf({ WATCH_IDLE: text }), [
      `WATCH_IDLE is ${JSON.stringify(text)}; write a Go duration from 1s to 25s, or 0`,
    ]);
  assert.deepEqual(mistakesOf({ VIEWS: "sleep" }), ['VIEWS is "sleep"; write watch, awake or list']);
});

test("reviews are answered for ten seconds after a signal by default, for a minute at most, or not at all", () => {
  const delayMs = (SHUTDOWN_DELAY?: string) => valid({ SHUTDOWN_DELAY }).shutdownDelayMs;
  assert.deepEqual([delayMs(), delayMs("0"), delayMs("500ms"), delayMs("1m")], [10_000, 0, 500, 60_000]);
  for (const text of ["61s", "-1s", "10", "soon"])
    assert.deepEqual(mistakesOf({ SHUTDOWN_DELAY: text }), [
      `SHUTDOWN_DELAY is ${JSON.stringify(text)}; write 0, or a Go duration of at most 1m`,
    ]);
});

test("the help names every setting with its default, and every flag with its effect", () => {
  const text = help();
  for (const { name } of flags) assert.match(text, new RegExp(`^  -${name} +\\S`, "m"), name);
  for (const name of ["KUBECONFIG", "NAMESPACE", "VIEWS", "DRAIN_TIMEOUT"])
    assert.match(text, new RegExp(`^  ${name} `, "m"));
  for (const fallback of ["8080", "5m", "20", "act", "all", "10000", "1048576", "25s"]) {
    assert.ok(text.replaceAll(/\s+/g, " ").includes(`(default: ${fallback})`), fallback);
  }
  assert.match(text, /--replay FILE/);
  assert.match(text, /^--check-uninstall lists/m);
  assert.ok(text.split("\n").every((line) => line.length <= 112));
});

test("FUNCTION takes one function, several, or all of them", () => {
  const functionsOf = (FUNCTION: string) => readSettings({ FUNCTION }).settings.functions;
  assert.deepEqual(functionsOf("evaluate-eviction, validate-zone-budget,evaluate-eviction"), [
    "evaluate-eviction",
    "validate-zone-budget",
  ]);
  assert.deepEqual(functionsOf("rotate-certificate"), ["rotate-certificate"]);
  assert.equal(functionsOf("all").length, table.filter(isStandard).length);
  for (const wrong of ["", "all,evaluate-eviction", "evaluate-eviction,", "evaluate"]) {
    const { mistakes } = readSettings({ FUNCTION: wrong });
    assert.equal(mistakes.length, wrong === "" ? 0 : 1, wrong);
  }
});

test("the wait of an eviction is a duration or 0, and a malformed or negative one is reported at the start", () => {
  assert.equal(valid({ EVICTION_WAIT: "0" }).evictionWaitMs, 0);
  assert.equal(valid({ EVICTION_WAIT: "1m30s" }).evictionWaitMs, 90_000);
  for (const text of ["eight", "8", "-1s", "2h", "8 s"]) {
    assert.deepEqual(mistakesOf({ EVICTION_WAIT: text }), [
      `EVICTION_WAIT is "${text}"; write 0, or a Go duration of at most 1h, such as 8s`,
    ]);
  }
});

test("the brakes of fences are whole numbers, a percentage and a duration, and what is none of that is reported", () => {
  const brakes = (environment: Environment) => {
    const { fenceMaxConcurrent, fenceStormPercent, fenceStormCooldownMs, fenceMostPerHour } = valid(environment);
    return [fenceMaxConcurrent, fenceStormPercent, fenceStormCooldownMs, fenceMostPerHour];
  };
  const least = { FENCE_MAX_CONCURRENT: "1", FENCE_STORM: "0%", FENCE_STORM_COOLDOWN: "0", FENCE_MOST_PER_HOUR: "1" };
  const most = {
    FENCE_MAX_CONCURRENT: "100",
    FENCE_STORM: "100%",
    FENCE_STORM_COOLDOWN: "1h",
    FENCE_MOST_PER_HOUR: "20",
  };
  assert.deepEqual(
    [brakes(least), brakes(most)],
    [
      [1, 0, 0, 1],
      [100, 100, 3_600_000, 20],
    ],
  );
  const wrong = {
    FENCE_MAX_CONCURRENT: ["0", "101", "-1", "1.5", "two"],
    FENCE_STORM: ["40", "101%", "-1%", "4.5%", "%"],
    FENCE_STORM_COOLDOWN: ["5", "-1s", "61m", "soon"],
    FENCE_MOST_PER_HOUR: ["0", "21", "three"],
  };
  for (const [name, texts] of Object.entries(wrong))
    for (const text of texts) assert.match(mistakesOf({ [name]: text }).join(), new RegExp(`^${name} is "`), text);
});

test("the health of nodes is watched for a duration of a second to a day, and not at all by default", () => {
  const afterOf = (text: string) => valid({ NODE_HEALTH_AFTER: text }).nodeHealthAfterMs;
  assert.deepEqual(["", "off", "1s", "60s", "24h"].map(afterOf), ["off", "off", 1_000, 60_000, 86_400_000]);
  for (const text of ["0", "999ms", "25h", "60", "-60s", "on"])
    assert.match(mistakesOf({ NODE_HEALTH_AFTER: text }).join(), /^NODE_HEALTH_AFTER is "/, text);
});
