/** What is installed with fencing, as it is rendered: what a reader of the manifests may rely on, and what others never get. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite, test } from "node:test";
import { load, loadAll } from "js-yaml";
import { agentSettings, readSettings as readAgentSettings } from "../../functions/fence-node/agent/settings.ts";
import { fenceNode } from "../../functions/fence-node/function.ts";
import type { Need } from "../../functions/shared/contract/definition.ts";
import { fenceNamespace } from "../../functions/shared/fencing/settings.ts";
import { watchNodeHealth } from "../../functions/watch-node-health/function.ts";
import { concernsNodes } from "../../knative/render/fencing/fencing.ts";
import { agentAccount, fencingNamespace, functionAccount } from "../../knative/render/fencing/names.ts";
import { renderManifests } from "../../knative/render/manifests.ts";
import { readSettings } from "../../triggers/settings/settings.ts";
import { admissionFunctions, cronFunctions, groupFunctions, statusFunctions } from "../../triggers/table.ts";
import type { Built } from "../support/kubectl.ts";
import { rightsOf } from "./rights.ts";

const knative = join(import.meta.dirname, "../../knative");
const functions = [fenceNode.name, watchNodeHealth.name];
const rendered = renderManifests({ groupFunctions, admissionFunctions, cronFunctions, statusFunctions });

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly fieldRef: { readonly fieldPath: string } };
}

interface Container {
  readonly image: string;
  readonly env: readonly Variable[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly resources: {
    readonly requests: Readonly<Record<string, string>>;
    readonly limits: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

interface Pod {
  readonly containers: readonly [Container];
  readonly terminationGracePeriodSeconds: number;
  readonly [field: string]: unknown;
}

interface Workload extends Built {
  readonly spec: {
    readonly template: { readonly metadata: object; readonly spec: Pod };
    readonly [field: string]: unknown;
  };
}

function objectsIn(...folders: readonly string[]): readonly Built[] {
  const files = [...rendered.keys()].filter((path) => !path.endsWith("/kustomization.yaml"));
  const paths = files.filter((path) => folders.includes(path.slice(0, path.indexOf("/"))));
  return paths.flatMap((path) => loadAll(rendered.get(path) ?? "") as unknown as readonly Built[]);
}

function workloadIn(folder: string, kind: string): Workload {
  const found = objectsIn(folder).filter((one) => one.kind === kind);
  assert.equal(found.length, 1, `${kind} in ${folder}`);
  return found[0] as Workload;
}

/** As `group/resource verb`, with the namespace where it holds, or `everywhere`. */
function rightsIn(objects: readonly Built[], account: string): readonly string[] {
  const rights = rightsOf(objects, fencingNamespace, account);
  for (const { names } of rights) assert.equal(names, undefined);
  const texts = rights.map(
    ({ group, resource, verb, namespace = "everywhere" }) => `${group}/${resource} ${verb} ${namespace}`,
  );
  return texts.sort();
}

function needed(needs: readonly Need[]): readonly string[] {
  const isOfCluster = ({ resource }: Need) => /^(nodes|volumeattachments)$/.test(resource);
  const place = (need: Need) =>
    isOfCluster(need) || need.scope === "every-namespace" ? "everywhere" : (need.scope ?? fencingNamespace);
  const rights = needs.flatMap((need) =>
    need.verbs.map((verb) => `${need.group}/${need.resource} ${verb} ${place(need)}`),
  );
  return [...new Set(rights)].sort();
}

/** Of a container, with what Kubernetes puts in the place of the fields of a pod. */
function environmentOf({ env }: Container): Readonly<Record<string, string>> {
  const fields: Readonly<Record<string, string>> = {
    "metadata.namespace": "of-the-pod",
    "spec.nodeName": "node-1",
    "status.hostIPs": "192.0.2.7,2001:db8::7",
  };
  return Object.fromEntries(
    env.map(({ name, value, valueFrom }) => [name, value ?? fields[valueFrom?.fieldRef.fieldPath ?? ""] ?? ""]),
  );
}

suite("the functions of fencing", () => {
  const deployment = workloadIn("fencing", "Deployment");
  const pod = deployment.spec.template.spec;
  const [container] = pod.containers;

  test("have the rights of their definitions, that to edit ledgers, and no other: none to delete pods, and none to make or delete Nodes", () => {
    const served = groupFunctions.filter(concernsNodes);
    assert.ok(served.some(({ name }) => name === fenceNode.name));
    const rights = rightsIn(objectsIn("fencing"), functionAccount);
    const asked = needed(served.flatMap(({ needs }) => needs));
    assert.deepEqual(rights, [...asked, "sluice.dev/ledgers edit everywhere"].sort());
    assert.deepEqual(
      rights.filter((right) => /^\/nodes |^\/pods /.test(right)),
      ["get", "list", "patch", "watch"]
        .map((verb) => `/nodes ${verb} everywhere`)
        .concat(["/pods get everywhere", "/pods list everywhere"]),
    );
  });

  test("run twice, never on one node, and leave a node that fails after ten seconds", () => {
    assert.equal(deployment.spec.replicas, 2);
    assert.equal(pod.priorityClassName, "system-cluster-critical");
    const labels = { "app.kubernetes.io/name": "sluice", "app.kubernetes.io/component": functionAccount };
    const selector = { matchLabels: labels };
    assert.deepEqual(pod.affinity, {
      podAntiAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: [
          { topologyKey: "kubernetes.io/hostname", labelSelector: selector },
        ],
      },
    });
    assert.deepEqual(
      pod.tolerations,
      ["not-ready", "unreachable"].map((taint) => ({
        key: `node.kubernetes.io/${taint}`,
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 10,
      })),
    );
    // A third replica beside the two would need a third node.
    assert.deepEqual(deployment.spec.strategy, {
      type: "RollingUpdate",
      rollingUpdate: { maxSurge: 0, maxUnavailable: 1 },
    });
    const [budget] = objectsIn("fencing").filter(({ kind }) => kind === "PodDisruptionBudget");
    const { spec } = budget as Workload;
    assert.deepEqual(spec, { minAvailable: 1, unhealthyPodEvictionPolicy: "AlwaysAllow", selector } as object);
    assert.deepEqual(deployment.spec.selector, selector);
    assert.deepEqual(deployment.spec.template.metadata, { labels });
  });

  test("are unprivileged, probed, without a TLS port, and know their namespace by the downward API alone", () => {
    const { allowPrivilegeEscalation, readOnlyRootFilesystem, runAsNonRoot } = container.securityContext;
    assert.deepEqual([allowPrivilegeEscalation, readOnlyRootFilesystem, runAsNonRoot], [false, true, true]);
    assert.match(JSON.stringify([container.readinessProbe, container.livenessProbe]), /readyz.*healthz/);
    assert.match(JSON.stringify(container.startupProbe), /healthz.*"periodSeconds":2,"failureThreshold":1800/);
    assert.deepEqual(container.ports, [{ name: "http-metrics", containerPort: 8001 }]);
    const { settings, mistakes } = readSettings(environmentOf(container));
    assert.deepEqual(mistakes, []);
    assert.deepEqual([settings.functions, settings.tlsPort, settings.port], [functions, "off", 8001]);
    assert.equal(settings.nodeHealthAfterMs, "off", "no node is marked unless a user asks for it");
    assert.equal(environmentOf(container)[fenceNamespace.name], "of-the-pod");
    assert.ok(pod.terminationGracePeriodSeconds * 1_000 > settings.drainTimeoutMs);
  });

  test("run on Knative as one instance that never ends, triggered by Nodes, by their own schedule, and by the sweep", () => {
    const service = workloadIn("fencing-knative", "Service");
    const annotations = JSON.stringify(service.spec.template.metadata);
    for (const bound of ["initial", "min", "max"])
      assert.ok(annotations.includes(`"autoscaling.knative.dev/${bound}-scale":"1"`));
    const { env } = service.spec.template.spec.containers[0];
    assert.ok(
      env.every(({ valueFrom }) => valueFrom === undefined),
      "by default Knative refuses the downward API",
    );
    const { settings, mistakes } = readSettings(environmentOf(service.spec.template.spec.containers[0]));
    assert.deepEqual([settings.functions, mistakes], [functions, []]);
    const sources = objectsIn("fencing-knative").filter(({ apiVersion }) => apiVersion.startsWith("sources."));
    const texts = sources.map(({ kind, ...rest }) => `${kind} ${JSON.stringify((rest as unknown as Workload).spec)}`);
    assert.equal(texts.length, 5);
    const names = sources.filter(({ kind }) => kind === "PingSource").map(({ metadata }) => metadata.name);
    assert.deepEqual(
      names,
      functions.flatMap((name) => [name, `${name}-due`]),
    );
    assert.ok(texts.some((text) => /^ApiServerSource .*"mode":"Reference".*"kind":"Node"/.test(text)));
    const { everySeconds = 0 } = fenceNode.schedule ?? {};
    assert.ok(texts.some((text) => text.includes(`"schedule":"*/${everySeconds} * * * * *"`)) && everySeconds === 10);
    const watched = rightsIn(objectsIn("fencing-knative"), `${fenceNode.name}-source`);
    assert.deepEqual(
      watched,
      ["get", "list", "watch"].map((verb) => `/nodes ${verb} everywhere`),
    );
    const rights = rightsIn(objectsIn("fencing-knative"), functionAccount);
    assert.deepEqual(
      rights,
      rightsIn(objectsIn("fencing"), functionAccount).filter((right) => !/ watch /.test(right)),
    );
  });
});

suite("the agents of fencing", () => {
  const daemonSet = workloadIn("fencing-agents", "DaemonSet");
  const pod = daemonSet.spec.template.spec;
  const [container] = pod.containers;

  test("may get, make and patch Leases of their namespace and get Nodes, and nothing else", () => {
    assert.deepEqual(rightsIn(objectsIn("fencing-agents"), agentAccount), [
      "/nodes get everywhere",
      ...["create", "get", "patch"].map((verb) => `coordination.k8s.io/leases ${verb} ${fencingNamespace}`),
    ]);
  });

  test("are on each Linux node whatever its taints, and no other pod takes their place", () => {
    assert.deepEqual(pod.nodeSelector, { "kubernetes.io/os": "linux" });
    assert.deepEqual(pod.tolerations, [{ operator: "Exists" }]);
    assert.equal(pod.priorityClassName, "system-node-critical");
    assert.equal(pod.affinity, undefined);
  });

  test("alone are privileged: on the network of the host and with a root that cannot be written, but without its processes", () => {
    assert.deepEqual(container.securityContext, { privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 });
    assert.deepEqual([pod.hostNetwork, pod.dnsPolicy], [true, "Default"]);
    assert.deepEqual([pod.hostPID, pod.hostIPC], [undefined, undefined]);
    const others = [...rendered]
      .filter(([, text]) => /privileged: true|hostNetwork|hostPath/.test(text))
      .map(([path]) => path);
    assert.deepEqual(others, ["fencing-agents/agents.yaml"]);
    assert.equal(pod.containers.length, 1);
    assert.equal(pod.initContainers, undefined);
  });

  test("are updated without a gap: a new one comes first, and no declared port keeps it from the node", () => {
    const updateStrategy = { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } };
    assert.deepEqual([daemonSet.spec.updateStrategy, daemonSet.spec.minReadySeconds], [updateStrategy, 30]);
    assert.equal(container.ports, undefined);
    assert.equal(container.imagePullPolicy, "IfNotPresent");
  });

  test("are never restarted by a probe nor throttled, and end in an orderly way within their grace", () => {
    for (const probe of ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"])
      assert.equal(container[probe], undefined);
    assert.deepEqual(Object.keys(container.resources.limits), ["memory"]);
    const [memory = 0, cpu = 0] = [container.resources.limits.memory, container.resources.requests.cpu].map((text) =>
      Number.parseInt(text ?? "", 10),
    );
    assert.ok(memory >= 2 * 90 && cpu > 0 && cpu <= 50, `${memory} Mi, ${cpu} m`);
    // The last renewal, the last drill, and the write that stops the device.
    const { renewTimeoutMs, peerTimeoutMs } = settings();
    assert.ok(pod.terminationGracePeriodSeconds * 1_000 > 2 * (2 * renewTimeoutMs + peerTimeoutMs));
  });

  test("have settings without a mistake: the node, its addresses and the namespace by the downward API", () => {
    assert.deepEqual(
      container.env.flatMap(({ name, valueFrom }) =>
        valueFrom === undefined ? [] : [[name, valueFrom.fieldRef.fieldPath]],
      ),
      [
        [agentSettings.node.name, "spec.nodeName"],
        [agentSettings.hosts.name, "status.hostIPs"],
        [fenceNamespace.name, "metadata.namespace"],
      ],
    );
    const read = settings();
    assert.deepEqual([read.node, read.hosts, read.namespace], ["node-1", ["192.0.2.7", "2001:db8::7"], "of-the-pod"]);
    assert.equal(read.resetFile, ["/proc/sysrq", "trigger"].join("-"));
    assert.equal(pod.automountServiceAccountToken, true);
  });

  test("have the host's devices and the two folders that outlast a container and a boot", () => {
    const read = settings();
    const volumes = pod.volumes as readonly {
      readonly name: string;
      readonly hostPath: { readonly path: string; readonly type: string };
    }[];
    const mounts = container.volumeMounts as readonly {
      readonly name: string;
      readonly mountPath: string;
      readonly readOnly?: boolean;
    }[];
    const mounted = volumes.map(({ name, hostPath }) => {
      const { mountPath, readOnly = false } = mounts.find((mount) => mount.name === name) ?? assert.fail(name);
      return [hostPath.path, hostPath.type, mountPath, readOnly];
    });
    assert.deepEqual(mounted, [
      ["/dev", "Directory", "/host/dev", true],
      [read.runFolder, "DirectoryOrCreate", read.runFolder, false],
      [read.stateFolder, "DirectoryOrCreate", read.stateFolder, false],
    ]);
    assert.equal(read.watchdog, "/host/dev/watchdog");
  });

  test("are answered by an API server under load as kubelets are, for what they may do and nothing else", () => {
    const [schema] = objectsIn("fencing-agents").filter(({ kind }) => kind === "FlowSchema");
    const { spec } = schema as unknown as {
      spec: {
        priorityLevelConfiguration: { name: string };
        rules: readonly {
          subjects: readonly object[];
          resourceRules: readonly { resources: string[]; verbs: string[]; apiGroups: string[] }[];
        }[];
      };
    };
    assert.equal(spec.priorityLevelConfiguration.name, "node-high");
    const [rule, ...more] = spec.rules;
    assert.deepEqual(more, []);
    const serviceAccount = { name: agentAccount, namespace: fencingNamespace };
    assert.deepEqual(rule?.subjects, [{ kind: "ServiceAccount", serviceAccount }]);
    const matched = (rule?.resourceRules ?? []).flatMap((one) =>
      one.verbs.map((verb) => `${one.apiGroups}/${one.resources} ${verb}`),
    );
    const rights = rightsIn(objectsIn("fencing-agents"), agentAccount).map((right) =>
      right.split(" ").slice(0, 2).join(" "),
    );
    assert.deepEqual(matched.sort(), [...rights].sort());
  });

  function settings() {
    const read = readAgentSettings({ ...environmentOf(container), KUBERNETES_SERVICE_HOST: "10.96.0.1" });
    if (!("node" in read)) assert.fail(read.join("\n"));
    return read;
  }
});

suite("the installation of fencing", () => {
  const folders = ["fencing", "fencing-agents", "fencing-knative", "fencing-policy", "fencing-node-deletion"];

  test("is in a namespace of its own that admits privileged and critical pods, and all of it names that namespace", () => {
    const objects = objectsIn(...folders);
    const [namespace, ...more] = objects.filter(({ kind }) => kind === "Namespace");
    assert.deepEqual(more, []);
    assert.equal(namespace?.metadata.name, fencingNamespace);
    assert.equal(fenceNamespace.fallback, fencingNamespace, "users of kubectl sluice need not name it");
    for (const mode of ["enforce", "audit", "warn"])
      assert.ok(JSON.stringify(namespace).includes(`"pod-security.kubernetes.io/${mode}":"privileged"`));
    const [quota] = objects.filter(({ kind }) => kind === "ResourceQuota");
    const classes = ["fencing", "fencing-agents"].flatMap((folder) =>
      objectsIn(folder).flatMap((one) => (one as Workload).spec?.template?.spec.priorityClassName ?? []),
    );
    assert.ok(
      JSON.stringify(quota).includes(`"scopeName":"PriorityClass","operator":"In","values":${JSON.stringify(classes)}`),
    );
    const placed = objects.filter(
      ({ metadata }) => metadata.namespace !== undefined && metadata.namespace !== fencingNamespace,
    );
    const policies = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
    const ofCluster = objects.filter(({ metadata }) => metadata.namespace === undefined).map(({ kind }) => kind);
    assert.deepEqual(
      placed.map(({ kind, metadata }) => `${kind} ${metadata.namespace}`),
      ["Role default", "RoleBinding default", "Role default", "RoleBinding default"],
      "Events about Nodes are in the namespace default",
    );
    assert.deepEqual([...new Set(ofCluster)].sort(), [
      "ClusterRole",
      "ClusterRoleBinding",
      "FlowSchema",
      "Namespace",
      ...policies,
    ]);
    const subjects = objects.flatMap(
      (one) => (one as unknown as { subjects?: readonly { namespace: string }[] }).subjects ?? [],
    );
    assert.deepEqual(new Set(subjects.map(({ namespace }) => namespace)), new Set([fencingNamespace]));
  });

  test("with node-deletion has the rights to make and to delete Nodes besides, and no other", () => {
    const added = rightsIn(objectsIn("fencing-node-deletion"), functionAccount);
    assert.deepEqual(added, ["/nodes create everywhere", "/nodes delete everywhere"]);
    const asked = needed(Object.values(fenceNode.optionalNeeds ?? {}).flat());
    assert.deepEqual(asked, [...added, "/nodes patch everywhere"], "which it has already");
    const kindsIn = (folder: string) =>
      new Set(objectsIn(folder).map(({ kind, metadata }) => `${kind} ${metadata.name}`));
    const role = "sluice:fencing-node-deletion";
    const rights = [`ClusterRole ${role}`, `ClusterRoleBinding ${role}`];
    assert.deepEqual(kindsIn("fencing-node-deletion"), new Set([...rights, ...kindsIn("fencing-policy")]));
  });

  test("is in the overlays of fencing alone, and no account of another overlay has a right to Nodes", () => {
    const standard = globSync("*/kustomization.yaml", { cwd: join(knative, "overlays") }).filter(
      (path) => !path.startsWith("fencing"),
    );
    assert.ok(standard.length >= 4);
    for (const path of standard) {
      const { resources } = load(readFileSync(join(knative, "overlays", path), "utf8")) as {
        readonly resources: readonly string[];
      };
      for (const resource of resources) assert.doesNotMatch(resource, /fencing/, path);
    }
    const others = [...rendered].filter(([path]) => !path.startsWith("fencing"));
    const rules = others.flatMap(
      ([, text]) => loadAll(text) as { readonly rules?: readonly { readonly resources?: readonly string[] }[] }[],
    );
    const toNodes = rules
      .flatMap((one) => one?.rules ?? [])
      .filter(({ resources = [] }) => resources.some((one) => /^nodes\b/.test(one)));
    assert.deepEqual(toNodes, []);
  });
});
