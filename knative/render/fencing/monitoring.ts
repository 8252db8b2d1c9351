/**
 * The scrape targets and the alerts of fencing. They are no part of the standard monitoring, because fencing is no part of the
 * standard installation.
 */

import type { Alert } from "../alerts.ts";
import { podMonitor, ruleGroup } from "../monitoring.ts";
import { labelsOf, type Manifest } from "../object.ts";
import type { PackageFields } from "../package-fields.ts";
import { agentAccount, fencingNamespace, functionAccount } from "./names.ts";

/** The default of `AGENT_PORT`. */
const agentPort = 9843;

/** What to do about a fence that a guard blocks. Each guard that can block one is here. */
export const whatToDo: Readonly<Record<string, string>> = {
  budget: "Another fence has the slot: see what that fence waits for, or raise FENCE_MAX_CONCURRENT.",
  storm: "Too many nodes are down at once: repair what they have in common, such as a switch or the API server.",
  "control-plane": "Another control-plane node is down or marked: repair it, or take one of the two marks away.",
  maintenance: "Wait for the end of the maintenance, or end the condition MaintenanceInProgress of the Node.",
  "foreign-fence": "Another tool fences the node: let it end, or remove its taint remediation.medik8s.io.",
  ledger: "See why the API server does not take the ledger: the log of fence-node has its answer.",
  "boot-unclear": "The Node and its agent name different boots: see that kubelet and agent run on the node.",
  "no-agent": "Switch the machine off, and confirm that it is off: no agent can reset it.",
  "not-armed": "Reset the machine by hand, or switch it off and confirm that it is off: its agent was not armed.",
  quorum:
    "End the partition between the peers and the API server, or switch the machine off and confirm that it is off.",
  "still-alive": "The Node is Ready: reset the machine by hand, and try its watchdog before you trust it again.",
  "another-machine": "Another machine has the name of the node: see that the first one is off, and confirm it.",
  "node-gone":
    "The Node was deleted, and Kubernetes deletes its pods: see at once that the machine is off, or have it register again.",
  stuck: "Pods or VolumeAttachments do not go: look for their finalizers, and for the controller of their volumes.",
  "node-finalizers":
    "The Node has finalizers: choose the strategy out-of-service, or have their controller remove them.",
  "backup-too-large": "The Node is too large for a backup: remove annotations, or choose the strategy out-of-service.",
  "not-permitted":
    "Give the account of fence-node the right that its log names, or choose the strategy out-of-service.",
  loop: "The node was fenced too often: repair the machine, then remove its mark.",
  "record-unreadable":
    "Another version wrote the record: run that version, or see that the machine is off and delete the Lease.",
  "slots-unreadable": "Another version wrote the Lease fence-slots: run that version, or delete the Lease.",
};

const adviceOfGuard = Object.entries(whatToDo)
  .map(([guard, advice], at) => `{{ ${at === 0 ? "if" : "else if"} eq $labels.guard "${guard}" }}${advice}`)
  .concat("{{ else }}The record of the fence says what it waits for.{{ end }}")
  .join("");

const perNamespace = "by (cluster, namespace)";
const armed = 'sluice_fence_nodes{mode="armed"}';
const notArmed = 'sluice_fence_nodes{mode!="armed"}';
const mostOfReplicas = (series: string) => `max ${perNamespace} (${series})`;
const sumOfModes = (series: string) => `sum ${perNamespace} (max by (cluster, namespace, mode) (${series}))`;

/** Fewer are armed and more are not, so that nodes which were taken away raise no alert. */
const fewerArmed =
  `${mostOfReplicas(armed)} < ${mostOfReplicas(`${armed} offset 1d`)}` +
  ` and on (cluster, namespace) ${sumOfModes(notArmed)} > ${sumOfModes(`${notArmed} offset 1d`)}`;

/** Agents have metrics of their own. Where these are not scraped, the agents that a replica has listed in the last hour count. */
const agentsAreThere =
  `(count ${perNamespace} (sluice_agent_mode)` +
  ` or ${mostOfReplicas('max_over_time(sluice_fence_nodes{mode=~"armed|explicit-only"}[1h])')} > 0)`;

export const fencingAlerts: readonly Alert[] = [
  {
    name: "SluiceFenceWaits",
    expression: "time() - min by (cluster, namespace, guard) (sluice_fence_waiting_since_timestamp_seconds) > 600",
    // A guard may block a fence for a moment.
    forDuration: "1m",
    summary:
      "A fence has been in its phase for {{ $value | humanizeDuration }}, and {{ $labels.guard }} blocks it: the pods of its node wait.",
    first: `kubectl sluice fenced shows which node that is. ${adviceOfGuard}`,
    runbook: "functions/fence-node/README.md#the-guards",
  },
  {
    name: "SluiceFewerArmedNodes",
    expression: fewerArmed,
    // A node that is rebooted is not armed for minutes.
    forDuration: "15m",
    summary: "Fewer nodes have an armed agent than a day before: {{ $value }} are left.",
    description: "A fence of a node whose agent is not armed waits for a new boot or for a person.",
    first:
      "kubectl sluice fenced lists the agents that are not armed, and why. kubectl -n {{ $labels.namespace }} get pods -o wide shows agents that do not run.",
    runbook: "functions/fence-node/README.md#the-agent",
  },
  {
    name: "SluiceFencingDown",
    expression: `${agentsAreThere} unless on (cluster, namespace) (time() - ${mostOfReplicas("sluice_fence_last_list_timestamp_seconds")} < 180)`,
    severity: "critical",
    summary: "No replica of fence-node has listed the nodes for 3 minutes: no node is fenced.",
    description: "None runs, none reaches the API server, or Prometheus reaches none of them.",
    first:
      "kubectl -n {{ $labels.namespace }} get deployments,pods -o wide, and kubectl -n {{ $labels.namespace }} logs of a replica, which has the answers of the API server.",
    runbook: "functions/fence-node/README.md#the-promise",
  },
];

export function fencingRule(fields?: PackageFields): Manifest {
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name: "sluice-fencing", namespace: fencingNamespace, labels: labelsOf("monitoring") },
    spec: ruleGroup("sluice-fencing", fencingAlerts, fields),
  };
}

/**
 * The agents declare no port, because a declared one would keep a new agent from the node of the old one. Prometheus then has one
 * target for each container, whose address is that of the pod without a port, and the relabelling adds the port.
 */
export function fencingMonitors(): readonly Manifest[] {
  const address = { sourceLabels: ["__address__"], targetLabel: "__address__" };
  const relabelings = [
    { ...address, regex: "([^:]+)", replacement: `$1:${agentPort}` },
    // An address of IPv6 without its port has no brackets.
    { ...address, regex: "([0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:.]*)", replacement: `[$1]:${agentPort}` },
    { sourceLabels: ["__meta_kubernetes_pod_node_name"], targetLabel: "node" },
  ];
  return [
    podMonitor(functionAccount, { port: "http-metrics", honorLabels: true }, fencingNamespace),
    podMonitor(agentAccount, { relabelings }, fencingNamespace),
  ];
}
