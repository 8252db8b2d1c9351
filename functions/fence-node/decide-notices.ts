/** Which Events are sent about the modes of agents. Pure. */

import type { AgentMode } from "../shared/annotations/fencing.ts";

/** More Events are not sent in one survey: the others follow with the next one. */
export const mostNotices = 10;

/** What the Lease of an agent says of itself. */
export interface ObservedAgent {
  readonly node: string;
  /** Of its Node. */
  readonly uid: string;
  /** Undefined where it names none that is known. */
  readonly mode: AgentMode | undefined;
  readonly why: string | undefined;
  readonly bootId: string | undefined;
}

/** An agent as two surveys have seen it, and what the last Event about it said; undefined: this process has sent none. */
export interface NoticedAgent extends ObservedAgent {
  readonly sent: string | undefined;
}

/** An Event about an agent. */
export interface AgentNotice {
  readonly agent: ObservedAgent;
  readonly isArmed: boolean;
  /** What the Event before it said. */
  readonly sentBefore: string | undefined;
}

interface Notices {
  readonly noticed: Map<string, NoticedAgent>;
  readonly notices: readonly AgentNotice[];
}

/** What an Event says of an agent, so that it is sent once. */
export const identityOf = ({ mode, why, bootId }: ObservedAgent): string => [mode, why, bootId].join(" ");

/**
 * An agent that is not armed is reported once two surveys in a row show the same, because an agent that starts is not armed for
 * a moment. One that is armed is reported where the Event before it says that it is not.
 *
 * @param before as the last survey has left it; undefined: this process begins
 */
export function decideNotices(
  agents: readonly ObservedAgent[],
  before: ReadonlyMap<string, NoticedAgent> | undefined,
): Notices {
  const noticed = new Map<string, NoticedAgent>();
  const notices: AgentNotice[] = [];
  for (const agent of agents) {
    const known = before?.get(agent.node);
    const isArmed = agent.mode === "armed";
    const isSame = known !== undefined && known.uid === agent.uid && identityOf(known) === identityOf(agent);
    const isNews = isArmed ? known?.sent !== undefined : known?.sent !== identityOf(agent);
    const isDue = isSame && isNews && notices.length < mostNotices;
    if (isDue) notices.push({ agent, isArmed, sentBefore: known?.sent });
    noticed.set(agent.node, { ...agent, sent: sentAfter(agent, known, isDue) });
  }
  return { noticed, notices };
}

/** Nothing has to follow an Event that says that an agent is armed. */
function sentAfter(agent: ObservedAgent, known: NoticedAgent | undefined, isSent: boolean): string | undefined {
  if (!isSent) return known?.sent;
  return agent.mode === "armed" ? undefined : identityOf(agent);
}
