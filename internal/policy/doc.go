// Package policy decides what happens to a tool call before any person is asked: it runs, it is
// refused, or it is quarantined until a person says yes.
//
// A policy is an ordered list of rules, written in YAML. [Read] takes them out of a configuration
// file and says of everything wrong in it where it stands; [Compile] turns what was read into a
// [Policy]: patterns into an index, regular expressions and CEL into programs, every silence of a
// rule into what its risk level implies. After that nothing is looked up, read or compiled again.
//
// A call meets the rules in order and the first that matches decides. A rule matches when one of
// its tools and one of its agents do, then each of its conditions, then its CEL expression; the
// first that does not hold ends it. What happens when things go wrong is the point of the package:
//
//   - No rule matches a tool call: the risk is high, it is quarantined, the reason is unknown_tool.
//
//   - No rule matches a call of another MCP method: if the method is known it runs (method_default),
//     else it is refused (unknown_method). A rule is for tool calls unless it names methods.
//
//   - A condition cannot be evaluated (a wrong type, a missing key, too long an evaluation): the
//     call is denied, and the reason is policy_error. Later rules are not asked.
//
//   - The arguments have names that differ only in letter case, from one another or from those that a
//     rule reads: the call is judged as each tool might read it, and the strictest verdict holds. No rule
//     can allow it; it is quarantined as ambiguous_args unless it is denied.
//
//   - The text of a path does not say where it lies (it is relative, climbs, or goes through /proc): it
//     counts as under every folder, so that no restriction is got round with it. A rule that does not deny
//     on that account may match or not: what later rules say counts too, the strictest holds, and
//     what would be allowed is quarantined as ambiguous_path instead.
//
//   - The policy has a guard, and the call names one of the gate's own files: what the rules would allow is
//     quarantined, and what they quarantine is of critical risk. It loosens nothing.
//
// Numbers are compared as the decimals that were written, never as floating point. No evaluation
// does I/O or depends on anything but the policy and the call.
//
// [Policy.Explain] tells rule by rule why a call ends as it does, and [Loosenings] what a new version
// of a policy lets through that the old one did not.
package policy
