/** The settings of the agent, and what is wrong with them. */

import { longestNodeName } from "../../shared/annotations/fencing-leases.ts";
import { mostAddresses } from "../../shared/annotations/fencing-peers.ts";
import { isObjectName } from "../../shared/base/dns-names.ts";
import { absolutePath, readEnvironment, unset } from "../../shared/base/environment.ts";
import { parsePort } from "../../shared/base/ports-and-paths.ts";
import { type Environment, parseDuration, setting, type ValuesOf } from "../../shared/base/settings.ts";
import { fenceNamespace } from "../../shared/fencing/settings.ts";

const hourMs = 3_600_000;
const duration = (text: string) => parseDuration(text, 10, hourMs);
const durationGrammar = "a Go duration from 10ms to 1h, such as 5s";

function parseNodeName(text: string): string | undefined {
  return isObjectName(text) && text.length <= longestNodeName ? text : undefined;
}

/** An address of IPv4 or IPv6, or a host name. An address of IPv6 has no brackets. */
const parseHost = (text: string) => (/^[\w.:-]+$/.test(text) ? text : undefined);

/** Addresses of a host, as the downward API has them: with commas. */
function parseHosts(text: string): readonly string[] | undefined {
  const hosts = text.split(",");
  const isAddress = (host: string): boolean => /^([\d.]{7,15}|[\da-fA-F:.]*:[\da-fA-F:.]*)$/.test(host);
  return hosts.every(isAddress) && hosts.length <= mostAddresses ? hosts : undefined;
}

export const agentSettings = {
  node: setting({
    name: "NODE_NAME",
    fallback: unset,
    meaning: "the Node of this machine",
    grammar: `the name of a Node, of at most ${longestNodeName} characters`,
    parse: parseNodeName,
  }),
  namespace: fenceNamespace,
  host: setting({
    name: "KUBERNETES_SERVICE_HOST",
    fallback: unset,
    meaning: "the address of the API server; Kubernetes sets it",
    grammar: "an address or a host name",
    parse: parseHost,
  }),
  port: setting({
    name: "KUBERNETES_SERVICE_PORT",
    fallback: "443",
    meaning: "the port of the API server; Kubernetes sets it",
    grammar: "a port from 1 to 65535",
    parse: parsePort,
  }),
  credentials: setting({
    name: "AGENT_CREDENTIALS",
    fallback: "/var/run/secrets/kubernetes.io/serviceaccount",
    meaning: "the folder with token and ca.crt, which are read for each request",
    ...absolutePath,
  }),
  runFolder: setting({
    name: "AGENT_RUN_FOLDER",
    fallback: "/run/sluice",
    meaning: "the folder that holds what the agent knows of this boot",
    ...absolutePath,
  }),
  watchdog: setting({
    name: "AGENT_WATCHDOG",
    fallback: "/dev/watchdog",
    meaning: "the watchdog device",
    ...absolutePath,
  }),
  /** Undefined where sysfs alone knows the time of the device. */
  watchdogMs: setting<number | undefined>({
    name: "AGENT_WATCHDOG_SECONDS",
    fallback: unset,
    meaning: "the time after which the device resets the machine, where sysfs does not know it",
    grammar: "seconds above 0 and up to 3600, such as 10",
    parse: (text: string) => (/^\d+(\.\d{1,3})?$/.test(text) ? parseDuration(`${text}s`, 10, hourMs) : undefined),
  }),
  /** Undefined where only the watchdog resets the machine. */
  resetFile: setting<string | undefined>({
    name: "AGENT_RESET_FILE",
    fallback: unset,
    meaning:
      "the file to which `b` is written to reset a machine whose watchdog does not: the sysrq trigger of the kernel",
    ...absolutePath,
  }),
  stateFolder: setting({
    name: "AGENT_STATE_FOLDER",
    fallback: "/var/lib/sluice",
    meaning: "the folder that holds what a boot leaves to the next one",
    ...absolutePath,
  }),
  /** Undefined where no peer can ask this agent. */
  hosts: setting<readonly string[] | undefined>({
    name: "HOST_IPS",
    fallback: unset,
    meaning: "the addresses of this machine, at which peers ask the agent",
    grammar: `at most ${mostAddresses} addresses of IPv4 or IPv6 with commas between them`,
    parse: parseHosts,
  }),
  peerPort: setting({
    name: "AGENT_PORT",
    fallback: "9843",
    meaning: "the port at which peers ask the agent; it is also the lock between an old agent and a new one",
    grammar: "a port from 1 to 65535",
    parse: parsePort,
  }),
  drillEveryMs: setting({
    name: "AGENT_DRILL_EVERY",
    fallback: "1m",
    meaning: "the time between two drills, in which the agent asks each of its peers whether it is there",
    grammar: durationGrammar,
    parse: duration,
  }),
  peerTimeoutMs: setting({
    name: "AGENT_PEER_TIMEOUT",
    fallback: "4s",
    meaning: "the limit of a question to all peers (Q)",
    grammar: durationGrammar,
    parse: duration,
  }),
  renewEveryMs: setting({
    name: "AGENT_RENEW_EVERY",
    fallback: "5s",
    meaning: "the time between two renewals of the Lease (I)",
    grammar: durationGrammar,
    parse: duration,
  }),
  renewTimeoutMs: setting({
    name: "AGENT_RENEW_TIMEOUT",
    fallback: "3s",
    meaning: "the limit of one renewal, with the GET that follows a refusal (A)",
    grammar: durationGrammar,
    parse: duration,
  }),
  freshMs: setting({
    name: "AGENT_CONTACT_TIMEOUT",
    fallback: "20s",
    meaning: "the age of the last success beyond which the agent is out of contact (X)",
    grammar: durationGrammar,
    parse: duration,
  }),
  permitMs: setting({
    name: "AGENT_PERMIT",
    fallback: "40s",
    meaning: "the time for which one success permits to feed the device (L)",
    grammar: durationGrammar,
    parse: duration,
  }),
} as const;

export type AgentSettings = ValuesOf<typeof agentSettings>;

/** What the agent itself needs of them. */
export type AgentTimes = Pick<
  AgentSettings,
  "node" | "hosts" | "peerPort" | "peerTimeoutMs" | "drillEveryMs" | "renewTimeoutMs" | "freshMs" | "permitMs"
>;

const optional: ReadonlySet<string> = new Set(
  [agentSettings.watchdogMs, agentSettings.resetFile, agentSettings.hosts].map(({ name }) => name),
);

/** Rules over several settings. Each is a message if it is broken. */
function brokenRules({ renewEveryMs, renewTimeoutMs, freshMs, permitMs, peerTimeoutMs }: AgentSettings): string[] {
  const { renewEveryMs: every, renewTimeoutMs: limit, freshMs: fresh, permitMs: permit } = agentSettings;
  const { peerTimeoutMs: question } = agentSettings;
  const broken: string[] = [];
  const leastFreshMs = 2 * (renewEveryMs + renewTimeoutMs) + renewTimeoutMs;
  if (freshMs < leastFreshMs) {
    broken.push(
      `${fresh.name} is ${freshMs} ms: write at least ${leastFreshMs} ms, twice ${every.name} and three times ${limit.name}, so that a lost renewal does not break the contact`,
    );
  }
  const leastPermitMs = freshMs + 2 * renewEveryMs + renewTimeoutMs + peerTimeoutMs;
  if (permitMs < leastPermitMs) {
    broken.push(
      `${permit.name} is ${permitMs} ms: write at least ${leastPermitMs} ms, the sum of ${fresh.name}, twice ${every.name}, ${limit.name} and ${question.name}, so that peers can excuse the node in time`,
    );
  }
  return broken;
}

/** The settings, or one message of one line for each that is missing, malformed, or in conflict with another. */
export function readSettings(environment: Environment): AgentSettings | readonly string[] {
  const settings = readEnvironment(agentSettings, environment, optional);
  if (isWrong(settings)) return settings;
  const broken = brokenRules(settings);
  return broken.length > 0 ? broken : settings;
}

const isWrong = (read: AgentSettings | readonly string[]): read is readonly string[] => Array.isArray(read);
