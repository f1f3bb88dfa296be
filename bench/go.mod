module kubequota.dev/bench

go 1.26.0

require kubequota.dev/conformance v0.0.0

replace kubequota.dev/conformance => ../conformance
