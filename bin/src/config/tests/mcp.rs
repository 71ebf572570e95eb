//! MCP servers, bundles and groups: what belongs together, and what does not.

use super::*;

const WHOLE: &str = "[mcp.servers.files]\ncommand='npx'\nenv={KEY='k'}\n[mcp.servers.web]\nurl='https://w.example/mcp'\n\
     headers={X-Key='k'}\n[mcp_bundles.all]\nservers=['files','web']\ntools=['files__*']\n\
     [agents.home]\nprovider='demo'\nmcp_bundles=['all']\n\
     [[agents.home.tool_filter_groups]]\nmode='dynamic'\ntools=['files__*']\nkeywords=['file']\n";

// T6, V-D6
#[test]
fn servers_bundles_and_groups_that_belong_together_are_taken() {
    let settings = loaded(WHOLE);
    let files = &settings.mcp.servers["files"];
    assert!(files.enabled && !files.trust_annotations && !files.deferred);
    assert_eq!((files.connect_timeout_secs, files.call_timeout_secs), (30, 120));
    assert_eq!(files.env["KEY"].expose(), "k");
    assert_eq!(settings.agents["home"].mcp_bundles, ["all"]);
    assert!(loaded("").agents["home"].mcp_bundles.is_empty());
    let shown = to_toml(&settings).unwrap();
    assert!(shown.contains("KEY = \"[secret]\""), "{shown}");
}

#[test]
fn names_that_lead_nowhere_and_servers_that_are_none_are_refused() {
    let said = |text: &str| lines(text).join("\n");
    let bundle = "[mcp_bundles.b]\nservers=['fles']\n[mcp.servers.files]\ncommand='x'";
    assert!(said(bundle).contains(
        "line 2: mcp_bundles.b.servers: there is no MCP server `fles`; the nearest is `files`"
    ));
    let agent = "[agents.home]\nprovider='demo'\nmcp_bundles=['al']\n[mcp_bundles.all]\nservers=[]";
    assert!(said(agent).contains(
        "line 3: agents.home.mcp_bundles: there is no MCP bundle `al`; the nearest is `all`"
    ));
    for (text, fault) in [
        ("[mcp.servers.s]\nargs=['x']", "has neither `command` nor `url`"),
        ("[mcp.servers.s]\ncommand='x'\nurl='http://x'", "has both `command` and `url`"),
        ("[mcp.servers.s]\ncommand=' '", "mcp.servers.s.command: is empty"),
        ("[mcp.servers.s]\nurl='ftp://x'", "mcp.servers.s.url: is not an http:// or https://"),
        ("[mcp.servers.s]\nurl='http://x'\nargs=['y']", "mcp.servers.s.args: is for a `command`"),
        ("[mcp.servers.s]\ncommand='x'\nheaders={A='b'}", "mcp.servers.s.headers: is for a `url`"),
        ("[mcp.servers.a__b]\ncommand='x'", "names of MCP servers have"),
        ("[mcp.servers.s]\nurl='http://x'\nheaders={'a b'='c'}", "can't be sent as a header"),
        ("[mcp.servers.s]\ncommand='x'\ncall_timeout_secs=0", "must be from 1 to 86400"),
        (
            "[mcp.servers.s]\nurl='http://x'\noauth={grant='client_credentials'}",
            "needs `client_id` and `client_secret`",
        ),
        ("[mcp.servers.s]\ncommand='x'\noauth={}", "mcp.servers.s.oauth: is for a `url`"),
        (
            "[agents.home]\nprovider='demo'\ntool_filter_groups=[{mode='dynamic',tools=['a__*']}]",
            "needs keywords",
        ),
        (
            "[agents.home]\nprovider='demo'\ntool_filter_groups=[{mode='always',tools=[''],keywords=['x']}]",
            "holds an empty name",
        ),
    ] {
        assert!(said(text).contains(fault), "{text}: {}", said(text));
    }
}
