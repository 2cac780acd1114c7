//! What the terminal says, in English and in Chinese. The first of LC_ALL, LC_MESSAGES and LANG that is set decides.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    English,
    Chinese,
}

impl Language {
    pub fn of(locale: &str) -> Language {
        if locale.starts_with("zh") { Language::Chinese } else { Language::English }
    }

    pub fn say(self, word: Word) -> &'static str {
        let (english, chinese) = match word {
            Word::AllNamespaces => ("all namespaces", "全部命名空间"),
            Word::Loading => ("loading …", "加载中……"),
            Word::Empty => ("there are none here", "这里没有"),
            Word::NoMatch => ("nothing matches the filter", "没有匹配的内容"),
            Word::Away => ("the cluster does not answer; trying again", "集群没有应答，正在重试"),
            Word::Unknown => ("there is no such kind or command", "没有这种资源或命令"),
            Word::Confirm => ("Delete it? y yes, any other key no", "删除吗？y 是，其他键否"),
            Word::NotForThis => ("this is for pods only", "仅适用于 Pod"),
            Word::Ended => ("(ended)", "（已结束）"),
            Word::Failed => ("failed", "失败"),
            Word::Keys => (
                ": command  / filter  ? help  enter open  d describe  y yaml  l logs  w why  s shell  esc back  q quit",
                ": 命令  / 过滤  ? 帮助  enter 打开  d 描述  y YAML  l 日志  w 原因  s 终端  esc 返回  q 退出",
            ),
            Word::Help => (HELP, HELP_ZH),
        };
        match self {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    AllNamespaces,
    Loading,
    Empty,
    NoMatch,
    Away,
    Unknown,
    Confirm,
    NotForThis,
    Ended,
    Failed,
    Keys,
    Help,
}

const HELP: &str = "\
j k ↓ ↑        down, up                 :pods  :no  :ev  :deploy  any kind, by any of its names
g G            first, last              :ns shop          that namespace;  :ns  all of them
PgDn PgUp      a page                   :q                quit
/              filter: web  app=web  status:pending  !web
enter          pods: logs; nodes and workloads: their pods; others: YAML
d describe     y YAML     w why (pods, autoscalers, claims)
l logs         p logs of the previous run
s shell        e edit     ctrl-d delete
0              all namespaces           n    the namespace of the row
o              sort by the next column  O    the other way round
esc            back                     q    quit
In texts: j k g G PgDn PgUp, / searches, f follows again.";

const HELP_ZH: &str = "\
j k ↓ ↑        下、上                   :pods  :no  :ev  :deploy  任意资源的任意名称
g G            首行、末行               :ns shop          该命名空间；:ns 为全部
PgDn PgUp      翻页                     :q                退出
/              过滤：web  app=web  status:pending  !web
enter          Pod：日志；节点和工作负载：其 Pod；其他：YAML
d 描述         y YAML     w 原因（Pod、自动伸缩、存储声明）
l 日志         p 上一次运行的日志
s 终端         e 编辑     ctrl-d 删除
0              全部命名空间             n    该行的命名空间
o              按下一列排序             O    反向
esc            返回                     q    退出
在文本中：j k g G PgDn PgUp，/ 搜索，f 继续跟随。";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locale_decides() {
        assert_eq!(Language::of("zh_CN.UTF-8"), Language::Chinese);
        assert_eq!(Language::of("C"), Language::English);
        assert_eq!(HELP.lines().count(), HELP_ZH.lines().count());
    }
}
