import assert from "node:assert/strict";
import { test } from "node:test";
import type { Environment } from "../../../../functions/shared/base/settings.ts";
import { readFlags } from "../../../../triggers/settings/flags.ts";
import { flags } from "../../../../triggers/settings/flags-table.ts";
import { readSettings, type Settings } from "../../../../triggers/settings/settings.ts";

/** The result of a command line: the settings that differ from the defaults, and the warnings. */
function understood(line: string, environment: Environment = {}) {
  const read = readFlags(line === "" ? [] : line.split(" "), environment);
  const { settings, mistakes } = readSettings(read.environment);
  assert.deepEqual([...read.mistakes, ...mistakes], [], line);
  const { settings: before } = readSettings(environment);
  const isChanged = ([field, value]: [string, unknown]) =>
    JSON.stringify(value) !== JSON.stringify(before[field as keyof Settings]);
  const changed = Object.fromEntries(Object.entries(settings).filter(isChanged));
  return { changed, warnings: read.warnings, access: read.access };
}

function mistakesOf(line: string, environment: Environment = {}): readonly string[] {
  const read = readFlags(line.split(" "), environment);
  return [...read.mistakes, ...readSettings(read.environment).mistakes];
}

/** With any flag, these settings are the defaults of the others. */
const usual = { port: 8001 };
const year = 365 * 24 * 3_600_000;

/** A flag, the settings that it adds to {@link usual}, and whether it causes a warning. */
const accepted: readonly [string, Partial<Settings>, RegExp?][] = [
  ["-log.format=logfmt", {}, /^-log\.format=logfmt: log lines are JSON$/],
  ["-log.format=json", {}],
  ["-log.level=debug", { logLevel: "debug" }],
  ["-log.level=warn", { logLevel: "warn" }],
  ["-server.port=9000", { port: 9000 }],
  ["-server.port=0x2328", { port: 9000 }],
  ["-server.port 9000", { port: 9000 }],
  ["--server.port=9000", { port: 9000 }],
  ["-server.port=9000 -server.port=9001", { port: 9001 }],
  ["-kubernetes.namespace=mimir", { namespaces: ["mimir"] }],
  ["-kubernetes.cluster-domain=cluster.example.", { clusterDomain: "cluster.example." }],
  ["-kubernetes.client-timeout=30s", { kubernetesTimeoutMs: 30_000 }],
  ["-kubernetes.client-timeout=5m", { kubernetesTimeoutMs: 60_000 }, /^-kubernetes\.client-timeout=5m: .* at most 1m$/],
  ["-kubernetes.client-timeout=1ms", { kubernetesTimeoutMs: 1_000 }, /at least 1s/],
  ["-kubernetes.client-timeout=0", { kubernetesTimeoutMs: 60_000 }, /at most 1m/],
  ["-kubernetes.client-qps=0", {}, /at most 16/],
  ["-kubernetes.client-burst=20", {}, /at most 16/],
  ["-pods.client-timeout=3s", { podTimeoutMs: 3_000 }],
  ["-pods.client-timeout=5ms", { podTimeoutMs: 100 }, /at least 100ms/],
  ["-reconcile.interval=5s", {}, /^-reconcile\.interval=5s: Sluice acts on a change at once$/],
  ["-server.cluster-validation.http.enabled=false", {}],
  ["-server.cluster-validation.http.enabled", {}, /X-Cluster/],
  ["-server.cluster-validation.http.soft-validation=0", {}],
  ["-server.cluster-validation.http.excluded-paths=a,b", {}, /X-Cluster/],
  ["-server.cluster-validation.http.excluded-user-agents=a", {}, /X-Cluster/],
  ["-server-tls.enabled", { tlsPort: 8443 }],
  ["-server-tls.enabled=true", { tlsPort: 8443 }],
  ["-server-tls.enabled=false", {}],
  ["-server-tls.enabled=1 -server-tls.port=9443", { tlsPort: 9443 }],
  ["-server-tls.port=9443", {}],
  ["-server-tls.cert-file=/a", {}],
  ["-server-tls.key-file=/b", {}],
  ["-server-tls.request-timeout=20s", { requestTimeoutMs: 20_000 }],
  ["-server-tls.request-timeout=500ms", { requestTimeoutMs: 1_000 }, /at least 1s/],
  ["-server-tls.self-signed-cert.enabled=true", {}],
  ["-server-tls.self-signed-cert.enabled=false", {}],
  ["-server-tls.self-signed-cert.secret-name=certificate", { tlsSecretName: "certificate" }],
  ["-server-tls.self-signed-cert.dns-name=ro.mimir.svc", { tlsDnsName: "ro.mimir.svc" }],
  ["-server-tls.self-signed-cert.org=Acme", { tlsOrganisation: "Acme" }],
  ["-server-tls.self-signed-cert.expiration=2y", { tlsCertLifetimeMs: 2 * year }],
  ["-webhooks.update-ca-bundle=true", {}],
  ["-webhooks.update-ca-bundle=false", { updateCaBundle: false }],
  ["-use-zone-tracker=false", {}],
  ["-use-zone-tracker=true", {}, /is read, whatever this says/],
  ["-zone-tracker.config-map-name=x", { zoneTrackerName: "x" }],
  ["-zpdb.pod-ready-annotation-patch-timeout=5s", {}, /nothing is written on pods/],
];

for (const [line, settings, warning] of accepted) {
  test(`${line} is accepted${warning === undefined ? "" : ", with a warning"}`, () => {
    const { changed, warnings } = understood(line);
    assert.deepEqual(changed, { ...usual, ...settings });
    assert.equal(warnings.length, warning === undefined ? 0 : 1, warnings.join("\n"));
    if (warning !== undefined) assert.match(warnings[0] ?? "", warning);
  });
}

test("the accepted flags include every flag of rollout-operator", () => {
  const tested = new Set(accepted.map(([line]) => /^--?([^= ]+)/.exec(line)?.[1]));
  const both = ["kubernetes.api-url", "kubernetes.config-file"];
  assert.deepEqual(
    flags.map(({ name }) => name).filter((name) => !tested.has(name)),
    both.toReversed(),
  );
  assert.equal(flags.length, 30);
});

test("without flags neither the settings nor the port change", () => {
  const environment = { NAMESPACE: "mimir", PORT: "9000", OTHER: "x" };
  for (const given of [{}, environment]) {
    const { environment: after, warnings, mistakes, access, help } = readFlags([], given);
    assert.deepEqual(
      { after, warnings, mistakes, access, help },
      { ...{ after: given, warnings: [], mistakes: [] }, access: {}, help: false },
    );
  }
});

test("a flag overrides its variable, with a warning if they differ", () => {
  const { changed, warnings } = understood("-server.port=9000 -log.level=info -kubernetes.client-timeout=10s", {
    PORT: "8080",
    LOG_LEVEL: "info",
    KUBERNETES_TIMEOUT: "10s",
    NAMESPACE: "mimir",
  });
  assert.deepEqual(changed, { port: 9000 });
  assert.deepEqual(warnings, ['PORT is "8080", and flags say "9000": the flags win']);
  assert.deepEqual(understood("-log.level=info", { PORT: "8080" }).changed, {});
  const closed = understood("-server-tls.enabled=false", {
    PORT: "1",
    TLS_PORT: "8443",
    TLS_CERT_FILE: "/a",
    TLS_KEY_FILE: "/b",
  });
  assert.deepEqual(closed.changed, { tlsPort: "off", tlsCertFile: "", tlsKeyFile: "" });
  assert.equal(closed.warnings.length, 3);
});

test("a TLS port that a variable has opened stays, unless a flag changes it", () => {
  const opened = { PORT: "1", TLS_PORT: "9443" };
  assert.deepEqual(understood("-server-tls.enabled", opened).changed, {});
  assert.deepEqual(understood("-log.level=info", opened).changed, {});
  assert.deepEqual(understood("-server-tls.port=8443", opened).changed, { tlsPort: 8443 });
});

test("certificate files are read if no certificate is self-signed, as with rollout-operator", () => {
  const files = "-server-tls.cert-file=/a -server-tls.key-file=/b";
  const own = "-server-tls.self-signed-cert.enabled=false -webhooks.update-ca-bundle=false";
  const read = { tlsPort: 8443, tlsCertFile: "/a", tlsKeyFile: "/b", updateCaBundle: false };
  assert.deepEqual(understood(`-server-tls.enabled ${own} ${files}`).changed, { ...usual, ...read });
  const selfSigned = understood(`-server-tls.enabled ${files}`);
  assert.deepEqual(selfSigned.changed, { ...usual, tlsPort: 8443 });
  assert.deepEqual(selfSigned.warnings, [
    "-server-tls.cert-file: no file is read, because -server-tls.self-signed-cert.enabled is true",
    "-server-tls.key-file: no file is read, because -server-tls.self-signed-cert.enabled is true",
  ]);
  const closed = understood(`-server-tls.enabled=false ${own} ${files}`);
  assert.deepEqual(closed.changed, { ...usual, updateCaBundle: false });
  const inEnvironment = { PORT: "1", TLS_CERT_FILE: "/c", TLS_KEY_FILE: "/d" };
  const opened = understood(`-server-tls.enabled ${own}`, inEnvironment);
  assert.deepEqual(opened.changed, { tlsPort: 8443, updateCaBundle: false });
  assert.deepEqual(understood("-server-tls.enabled -server-tls.self-signed-cert.enabled", inEnvironment).changed, {
    tlsPort: 8443,
    tlsCertFile: "",
    tlsKeyFile: "",
  });
});

test("the API server's address and the kubeconfig must be set together", () => {
  const { access, changed } = understood(
    "-kubernetes.api-url https://127.0.0.1:6443 -kubernetes.config-file /tmp/kubeconfig",
  );
  assert.deepEqual(access, { kubeconfig: "/tmp/kubeconfig", server: "https://127.0.0.1:6443" });
  assert.deepEqual(changed, { ...usual, kubeconfig: "/tmp/kubeconfig" });
  assert.deepEqual(understood("-kubernetes.api-url= -kubernetes.config-file=").access, {});
});

/** A command line, and how each line of its report begins. */
const refused: readonly [string, ...string[]][] = [
  ["-server.prot=1", "-server.prot: there is no such flag; similar: -server.port"],
  ["--namespace=mimir", "-namespace: there is no such flag; similar: -kubernetes.namespace"],
  ["-v", "-v: there is no such flag"],
  ["-something-else-altogether", "-something-else-altogether: there is no such flag; see --help"],
  ["---server.port=1", "---server.port=1: there is no such argument"],
  ["-", "-: there is no such argument"],
  ["--", "--: there is no such argument"],
  ["-=1", "-=1: there is no such argument"],
  ["mimir", "mimir: there is no such argument; settings are environment variables and flags, see --help"],
  ["-server-tls.enabled true", 'true: write -server-tls.enabled=true: a flag that is true or false takes "="'],
  ["-server.port", "-server.port has no value; write -server.port=VALUE"],
  ["-server.port=", '-server.port is ""; write an integer from 0 to 65535'],
  ["-server.port=65536", '-server.port is "65536"; write an integer from 0 to 65535'],
  ["-log.level=trace", '-log.level is "trace"; write debug, info, warn, error'],
  ["-log.format=xml", '-log.format is "xml"; write logfmt, json'],
  ["-kubernetes.namespace=", '-kubernetes.namespace is ""; write the name of a namespace'],
  ["-kubernetes.namespace=a,b", '-kubernetes.namespace is "a,b"; write the name of a namespace'],
  ["-kubernetes.namespace=*", '-kubernetes.namespace is "*"; write the name of a namespace'],
  ["-kubernetes.cluster-domain=", '-kubernetes.cluster-domain is ""; write a DNS name'],
  ["-kubernetes.client-timeout=1d", '-kubernetes.client-timeout is "1d"; write a Go duration, such as 90s'],
  ["-kubernetes.client-qps=many", '-kubernetes.client-qps is "many"; write a number'],
  ["-kubernetes.client-burst=0", "-kubernetes.client-burst is 0; write at least 1, or a qps of 0"],
  ["-kubernetes.client-burst=1.5", '-kubernetes.client-burst is "1.5"; write an integer'],
  ["-kubernetes.config-file=/a", "-kubernetes.config-file and -kubernetes.api-url come together"],
  ["-kubernetes.api-url=https://a", "-kubernetes.config-file and -kubernetes.api-url come together"],
  ["-kubernetes.api-url=a:1", '-kubernetes.api-url is "a:1"; write an address'],
  ["-reconcile.interval=5", '-reconcile.interval is "5"; write a Go duration, such as 90s'],
  ["-server-tls.enabled=yes", '-server-tls.enabled is "yes"; write true or false'],
  ["-server-tls.request-timeout=0", '-server-tls.request-timeout is "0"; write a Go duration above 0'],
  [
    "-server-tls.self-signed-cert.expiration=1.5h",
    '-server-tls.self-signed-cert.expiration is "1.5h"; write a Prometheus',
  ],
  [
    "-server-tls.self-signed-cert.expiration=11y",
    '-server-tls.self-signed-cert.expiration is "11y"; write a Prometheus',
  ],
  ["-server-tls.self-signed-cert.secret-name=A", '-server-tls.self-signed-cert.secret-name is "A"; write the name'],
  ["-server-tls.self-signed-cert.secret-name=", '-server-tls.self-signed-cert.secret-name is ""; write the name'],
  [
    "-zpdb.pod-ready-annotation-patch-timeout=0",
    '-zpdb.pod-ready-annotation-patch-timeout is "0"; write a Go duration',
  ],
  [
    "-server.cluster-validation.http.soft-validation",
    "-server.cluster-validation.http.soft-validation is true without",
  ],
  ["-use-zone-tracker -zone-tracker.config-map-name=", "-zone-tracker.config-map-name is empty"],
  [
    "-server-tls.enabled -server-tls.self-signed-cert.enabled=false -server-tls.cert-file=/a",
    "-server-tls.self-signed-cert.enabled is false; write -server-tls.cert-file and -server-tls.key-file too",
    "-server-tls.self-signed-cert.enabled is false; write -webhooks.update-ca-bundle=false too",
  ],
  [
    "-server.port=x -bogus stray",
    '-server.port is "x"',
    "-bogus: there is no such flag",
    "stray: there is no such argument",
  ],
];

for (const [line, ...messages] of refused) {
  test(`${line} is refused, with one line for each mistake`, () => {
    const mistakes = [...mistakesOf(line)];
    assert.equal(mistakes.length, messages.length, mistakes.join("\n"));
    for (const message of messages) {
      assert.ok(
        mistakes.some((mistake) => mistake.startsWith(message)),
        `${message}\n in \n${mistakes.join("\n")}`,
      );
    }
  });
}

test("help can be requested in each form that Go's programs accept", () => {
  for (const argument of ["-h", "--h", "-help", "--help"]) {
    const { help, mistakes, environment } = readFlags([argument], {});
    assert.deepEqual({ help, mistakes, environment }, { help: true, mistakes: [], environment: {} }, argument);
  }
});

test("--check-uninstall takes no value, and may stand beside any flag of rollout-operator", () => {
  for (const line of ["--check-uninstall", "-check-uninstall", "--check-uninstall -log.level=debug"]) {
    const { checksUninstall, mistakes } = readFlags(line.split(" "), {});
    assert.deepEqual({ checksUninstall, mistakes }, { checksUninstall: true, mistakes: [] }, line);
  }
  assert.equal(readFlags([], {}).checksUninstall, false);
  assert.deepEqual(mistakesOf("--check-uninstall=false"), ['-check-uninstall is "false"; write -check-uninstall']);
  assert.deepEqual(mistakesOf("-check-uninstal"), [
    "-check-uninstal: there is no such flag; similar: -check-uninstall",
  ]);
});

test("--replay takes a file, or - for standard input, and does not move the port as rollout-operator's flags do", () => {
  for (const line of ["--replay FILE", "-replay FILE", "--replay=FILE"]) {
    const { replay, mistakes, environment } = readFlags(line.split(" "), {});
    assert.deepEqual({ replay, mistakes, environment }, { replay: "FILE", mistakes: [], environment: {} }, line);
  }
  assert.equal(readFlags(["--replay", "-"], {}).replay, "-");
  assert.equal(readFlags([], {}).replay, undefined);
  for (const line of ["--replay", "--replay="]) {
    assert.deepEqual(mistakesOf(line), ["-replay has no value; write -replay=FILE"]);
  }
  assert.deepEqual(mistakesOf("--replya FILE"), [
    "-replya: there is no such flag; similar: -replay",
    "FILE: there is no such argument; settings are environment variables and flags, see --help",
  ]);
});
