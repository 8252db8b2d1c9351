/** How fast agents, kubelets and Kubernetes are in a cluster of played machines. */
import type { Controllers } from "../controlplane/commands.ts";

export interface FencingTimes {
  /** W, in milliseconds. */
  readonly watchdogMs: number;
  /** The times of the agents, as their settings. */
  readonly agent: Readonly<Record<string, string>>;
  /** Between two renewals of the Lease of a Node by its kubelet, in milliseconds. */
  readonly kubeletRenewMs: number;
  readonly controllers: Controllers;
}

/** W and the times of the agent, scaled down to about a fifteenth. */
export const scaledTimes: FencingTimes = {
  watchdogMs: 1_000,
  agent: {
    AGENT_RENEW_EVERY: "300ms",
    AGENT_RENEW_TIMEOUT: "200ms",
    AGENT_CONTACT_TIMEOUT: "1.2s",
    AGENT_PERMIT: "2.5s",
    AGENT_PEER_TIMEOUT: "500ms",
    AGENT_DRILL_EVERY: "1s",
  },
  kubeletRenewMs: 500,
  controllers: "node-health",
};

/** The defaults of agents, kubelets and Kubernetes, and a watchdog of 10 s. */
export const defaultTimes: FencingTimes = {
  watchdogMs: 10_000,
  agent: {},
  kubeletRenewMs: 10_000,
  controllers: "node-health-by-default",
};
