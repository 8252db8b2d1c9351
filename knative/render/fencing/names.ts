/** The names that the installation of fencing has. It is one for a cluster. */

export const fencingNamespace = "sluice-fencing";
/** The ServiceAccount of the functions. */
export const functionAccount = "fence-node";
/** The ServiceAccount of the agents, and the name of their DaemonSet. */
export const agentAccount = "fence-agent";
