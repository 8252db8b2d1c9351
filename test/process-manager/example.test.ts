/** The example of a pod whose process can be restarted: its parts fit each other, the runner, the server and the function. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { adviceOn } from "../../functions/advance-process-restart/decide-template.ts";
import { readManagerSettings } from "../../functions/advance-process-restart/process-manager/settings.ts";
import { parseRestart } from "../../functions/shared/annotations/restart.ts";
import type { TemplateContainer } from "../../functions/shared/kubernetes/cluster.ts";
import { readCompanions } from "../../knative/render/companions.ts";
import type { Built } from "../support/kubectl.ts";
import { type ExampleSet, exampleObjects, ofKind } from "./example.ts";

const objects = await exampleObjects();
const set = ofKind<ExampleSet>(objects, "StatefulSet");
const pod = set.spec.template.spec;
const [database] = pod.containers;
const [sidecar] = pod.initContainers;

test("its Service has names for pods that are not ready, and its Role lets the function read the Secret that it names", () => {
  const service = ofKind<Built & { readonly spec: { readonly publishNotReadyAddresses: boolean } }>(objects, "Service");
  assert.deepEqual([service.metadata.name, service.spec.publishNotReadyAddresses], [set.spec.serviceName, true]);
  const restart = parseRestart(set.metadata);
  assert.deepEqual(restart?.malformed, []);
  const { secret, port } = restart?.manager ?? assert.fail("no process manager");
  assert.equal(sidecar.ports[0]?.containerPort, port);
  const { rules } = ofKind<Built & { readonly rules: readonly object[] }>(objects, "Role");
  assert.deepEqual(rules, [{ apiGroups: [""], resources: ["secrets"], resourceNames: [secret], verbs: ["get"] }]);
  const { subjects } = ofKind<Built & { readonly subjects: readonly { readonly name: string }[] }>(
    objects,
    "RoleBinding",
  );
  assert.deepEqual(
    subjects.map(({ name }) => name),
    ["advance-process-restart"],
  );
  assert.ok(objects.some(({ kind, metadata }) => kind === "Secret" && metadata.name === secret));
});

test("its database is asked at the port that it opens, so that shards stay where they are while a process is down", () => {
  const { database: named } = parseRestart(set.metadata) ?? assert.fail("no process manager");
  assert.equal(named?.product, "opensearch");
  const http = database.ports.find(({ name }) => name === "http");
  assert.deepEqual(
    named.urls.map(({ port }) => Number(port)),
    [http?.containerPort],
  );
});

test("its server is a sidecar whose probe takes the pod out of its Services, and it has each setting without a default", () => {
  assert.equal(sidecar.restartPolicy, "Always");
  assert.match(JSON.stringify(sidecar.readinessProbe), /"path":"\/ready"/);
  const given = Object.fromEntries(sidecar.env.map(({ name }) => [name, name === "POD_IP" ? "10.0.0.1" : "uid"]));
  const settings = readManagerSettings(given);
  assert.ok("tokenFile" in settings, `${settings}`);
  const mountOf = (folder: string) => sidecar.volumeMounts.find(({ mountPath }) => folder.startsWith(mountPath))?.name;
  const { tokenFile, mountedFolder, stateFolder, filesFolder } = settings;
  assert.deepEqual([tokenFile, mountedFolder, stateFolder, filesFolder].map(mountOf), [
    "token",
    "mounted",
    "state",
    "files",
  ]);
});

test("its database runs under the runner, shares the server's folders, and its liveness probe knows that a process may be stopped", () => {
  const [companion] = readCompanions().filter(({ name }) => name === "process-manager");
  const volume = pod.volumes.find((one) => JSON.stringify(one).includes(`"name":"${companion?.name}"}`))?.name;
  const at = database.volumeMounts.find(({ name }) => name === volume)?.mountPath;
  const script = `${at}/${Object.keys(companion?.scripts ?? {})}`;
  assert.deepEqual(database.command?.slice(0, 2), ["sh", script]);
  assert.deepEqual(database.livenessProbe.exec?.command.slice(0, 4), ["sh", script, "alive", "--"]);
  for (const name of ["mounted", "state", "files"]) {
    const [own, others] = [database, sidecar].map((one) => one.volumeMounts.find((mount) => mount.name === name));
    assert.deepEqual([own?.mountPath, own?.subPath], [others?.mountPath, undefined], name);
  }
  assert.ok(pod.securityContext.fsGroup !== undefined, "both write the two emptyDirs");
});

test("its template gets no Warning Event", () => {
  assert.equal(adviceOn(pod.containers as unknown as readonly TemplateContainer[]), undefined);
});
